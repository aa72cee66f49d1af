"""Cuts real NVIDIA cards into hardware partitions (MIG), and switches cards into that mode.

A partition is one GPU instance with one compute instance that fills it. The package keeps to the
memory units and profiles that the card's own driver reports.
"""
