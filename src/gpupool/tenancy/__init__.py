"""Tenants, projects, users, tokens and quotas: who is asking, and what they may have."""
