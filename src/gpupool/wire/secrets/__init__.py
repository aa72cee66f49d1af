"""Shapes about the key of stored secrets."""
