"""Plays a trace through the scheduler's cycle over a virtual clock, and measures what comes of it."""
