"""The placer: takes a snapshot, has it planned, and writes the plan by generation."""
