"""Quotas: the tree of limits, the order of the queue, reclaim, whole cells and fair shares."""
