"""Reads what a machine itself shows of planes: keys of its fabric ports, VLANs of its rails, its NVMe hosts."""
