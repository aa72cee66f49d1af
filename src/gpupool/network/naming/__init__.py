"""DNS records of tenants: names of a network beside those of its jobs. What is wanted is pure; the
service writes it, and the resolver of the network answers it (`network/resolver_rows`)."""
