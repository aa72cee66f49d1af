"""Kills of every part of the pool on a real control plane, at every step, and what must be true
afterwards."""
