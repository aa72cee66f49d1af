"""Placement policies: how good a feasible node is for a claim, and which of its cards to take."""
