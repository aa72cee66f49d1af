"""Mechanisms with the real parts of a host: programs that this machine must have or can fetch."""
