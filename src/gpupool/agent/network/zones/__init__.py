"""Zones of networks on the pool's machine: each above 0 is an engine of its own, in a directory, a
network namespace and a switch of its own, whose cable leads to the uplink of zone 0. Decision 0090."""
