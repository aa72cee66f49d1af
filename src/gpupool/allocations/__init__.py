"""Claims, jobs and allocations: taken in, placed, handed to a node, and given back."""
