"""Dedicated lines: a VLAN and a BGP session between a network and the router of a company. What is
wanted and its compiler are pure; the service writes it. The agent runs a BGP speaker for each line
and reports what it learns."""
