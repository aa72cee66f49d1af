"""What exists and what was granted: frozen facts, shared by the deciding and the doing rooms.

Nothing here reads a clock, a file or a card. A lifecycle is a table (`TRANSITIONS`), numbers are integers
whose unit is in the name, and a type says what was seen or granted, never how it is stored or shown.
"""
