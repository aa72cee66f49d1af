"""Dedicated lines on this machine: their interface, and a BGP speaker (FRR) for each one."""
