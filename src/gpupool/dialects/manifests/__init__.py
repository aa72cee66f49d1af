"""Whole manifests: every pod in them is read by all dialects and written in the normal form."""
