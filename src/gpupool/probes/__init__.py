"""Finds out what hardware a node has and whether it is well.

One module or package per source. A probe reads: it never changes a card, decides nothing about its
use, and answers "unknown" where it cannot read. `memory_limits` alone sets something, and decides
nothing either.
"""
