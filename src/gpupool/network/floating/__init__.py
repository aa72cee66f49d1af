"""Floating IPs: addresses outside of the pool, each for one job of a network with a gateway. What is
wanted and its compiler are pure; the service writes it. The machine translates to an address on the
uplink, the gateway from there to the job; the agent probes it and reports."""
