"""Which server of a pool leads: the lease, standby and takeover."""
