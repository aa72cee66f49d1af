"""Feasibility: free capacity, and which cards, partitions, NUMA nodes and domains can take a
claim."""
