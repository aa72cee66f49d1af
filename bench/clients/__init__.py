"""Our own HTTP clients beside libraries, on one local server each: processor time for the same
work."""
