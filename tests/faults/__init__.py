"""Faults: kill -9 at named steps and at random moments, and other bad weather, against the real
pool."""
