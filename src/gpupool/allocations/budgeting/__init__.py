"""Budgets in the queue: what waits for money, and the check where a job starts (decision 0104)."""
