"""The audit log in the SDK."""
