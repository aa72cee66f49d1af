"""Writes to the ledger: grants and returns, gang lifecycles, and change records for the cache."""
