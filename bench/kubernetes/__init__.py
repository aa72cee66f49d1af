"""Figures of a real control plane on this machine, with simulated nodes: tests/support/cluster
makes it."""
