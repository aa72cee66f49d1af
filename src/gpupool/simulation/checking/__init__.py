"""The independent checker of a record: reads the raw lists and nothing of the engine."""
