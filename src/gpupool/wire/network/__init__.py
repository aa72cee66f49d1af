"""Networks of tenants and their parts: what clients ask for and get, what agents serve and report."""
