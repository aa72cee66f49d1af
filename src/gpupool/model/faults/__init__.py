"""What a driver's error number means, what follows from it, and which errors are one fault (ADR 0113).

`catalogue` has a row per XID, from `xids.csv`. `diagnosis` adds the driver's own recommendation and
says what the pool does and what a person should do. `incident` joins the errors of one node.
"""
