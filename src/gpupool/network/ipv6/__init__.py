"""IPv6 in networks beside IPv4: prefixes and addresses, and the rows of an OVN northbound database
that carry them. What chooses and compiles is pure; `subnets` reads what is there."""
