"""The scheduling cycle: a snapshot goes in, a plan comes out."""
