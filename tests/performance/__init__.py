"""What grows and what does not: counted, never timed."""
