"""The driver's libraries as a job sees them: where they are, and which stand-ins take their names.

It plans mounts and makes the stand-ins' files once for each driver; it knows no allocation's limits.
"""
