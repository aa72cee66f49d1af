"""Runs the scheduler's own cycle over a virtual clock: traces in, figures out.

Must not know a database, a network or a card.
"""
