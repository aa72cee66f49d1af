"""The cluster in memory: nodes, ledgers and pods as they change, and the scheduler's snapshot."""
