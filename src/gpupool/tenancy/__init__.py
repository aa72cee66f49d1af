"""Tenants, projects, users, tokens and quotas: the caller's identity and rights."""
