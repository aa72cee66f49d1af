"""Zones: each has databases, a compiler and a switch of its own for a part of the networks, so that
the time of a change does not grow with the pool. Decision 0090."""
