"""Nodes and cards: what hardware the pool has, in what state, and how much of it is taken."""
