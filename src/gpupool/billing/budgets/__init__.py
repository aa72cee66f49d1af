"""Budgets: what a tenant, project or user may spend in a month or quarter, and what happens then."""
