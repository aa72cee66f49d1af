"""Gangs as the controllers of others make them; `make test-operators` builds these and runs it."""
