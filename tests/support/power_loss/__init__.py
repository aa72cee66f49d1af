"""Power cuts without a power switch: what a process tree writes is recorded, and disks that could
be left are made."""
