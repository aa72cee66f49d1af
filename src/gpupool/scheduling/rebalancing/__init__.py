"""Moves of running jobs: free whole cards together (defragment), or spread load (rebalance)."""
