"""Quotas of tenants for what belongs to networks: set by admins, kept where an object is made."""
