"""Reads what the controller of this machine logs of flows, for the flow logs of tenants."""
