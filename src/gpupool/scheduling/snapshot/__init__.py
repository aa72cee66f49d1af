"""The frozen input and output of a cycle: cards, NUMA nodes, levels, waiting and running jobs, and
the plan."""
