"""What hardware is here, and is it well.

One file per way to find out. A probe reads; it never changes a card, never decides who may use it, and
answers "unknown" where it cannot read.
"""
