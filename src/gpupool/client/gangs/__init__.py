"""Requests for gangs that a client makes from other requests."""
