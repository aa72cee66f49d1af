"""The facts that deciding and acting packages share: what exists and what was granted.

Frozen and pure: nothing here reads a clock, a file or a card. A lifecycle is a table
(`TRANSITIONS`). Numbers are integers with their unit in the name. A type describes what was seen or
granted, never how that is stored or shown.
"""
