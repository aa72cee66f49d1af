"""The ways to divide a card or hand it over, one file each; only an agent acts through them.

The scheduler learns of a mechanism as data (profiles, fence level) and knows none by name.
"""
