"""The ledger of one node's cards in `GpuNode.spec`: writes, billing intervals, entry lifecycle."""
