"""Benches for a machine with a real card: `make gpu-bench`. Elsewhere each says why it measures
nothing."""
