"""The end of tenants and users: what keeps them from being deleted, and what goes with them."""
