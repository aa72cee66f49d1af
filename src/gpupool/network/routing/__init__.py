"""Route tables: where the packets of a network go. What is wanted, the effective table and its compiler
are pure; the service writes the static routes of tenants."""
