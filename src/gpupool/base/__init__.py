"""Units, ids, errors, clocks and settings. Imports the standard library only.

Must not know cards or tenants.
"""
