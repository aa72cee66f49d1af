"""Mirrors: copies of the packets of one job for another job of its network, while both run."""
