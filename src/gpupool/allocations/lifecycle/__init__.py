"""Running jobs: work for agents and their reports, leases, resizes, and overdue jobs."""
