"""Port forwards: ports of the pool's machine that lead to jobs of a network with a gateway. What is
wanted and its compiler are pure; the service writes it. The machine translates to the gateway, the
gateway to the jobs."""
