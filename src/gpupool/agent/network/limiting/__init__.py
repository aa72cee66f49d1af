"""Bandwidth limits on this machine: enforced, read back, and set again where the switch lost them."""
