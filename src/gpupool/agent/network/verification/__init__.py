"""Proves on this machine what networks promise: probes between two networks, paths measured, names asked."""
