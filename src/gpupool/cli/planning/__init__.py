"""Commands that try changes: simulate, whatif, defrag and rebalance."""
