"""The ledger in memory, corrected after every commit: what the scheduler's snapshot is made of."""
