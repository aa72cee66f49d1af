"""LDAP: a search, a bind as the person found, and the groups."""
