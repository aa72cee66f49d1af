"""Commands for tenants, projects, users, tokens, quotas and reports."""
