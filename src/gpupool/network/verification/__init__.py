"""Verifications of networks: isolation, limits, names, gateways and drift are tested on the spot.

The server makes two networks with the same addresses for it; the agent probes, the server keeps
the report."""
