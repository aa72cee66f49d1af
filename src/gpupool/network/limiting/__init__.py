"""Bandwidth limits: of the ports of jobs and of gateways, in both directions. What is wanted and its
compiler are pure; the service writes it. The agent shapes, and reads back what its switch has."""
