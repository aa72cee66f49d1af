"""Tables of claims, jobs, allocations and gangs. SQLAlchemy only."""
