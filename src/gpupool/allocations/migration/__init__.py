"""Moves of running jobs: planned, applied, and automatic ones at quiet times."""
