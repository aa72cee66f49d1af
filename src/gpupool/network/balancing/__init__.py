"""Load balancers of networks: one address in front of the jobs that serve. What is wanted and its
compiler are pure; the service writes it. OVN balances and probes."""
