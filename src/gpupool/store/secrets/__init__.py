"""Secrets at rest: columns of rooms that are encrypted by a key outside the database.

A room marks a column (`columns.mark_secret`) and passes each value through the vault of its store
(`vault.SecretVault`). Nothing here knows what a secret is for. See docs/decisions/0121.
"""
