"""Handovers: what a user owns goes to another user of its tenant, and leavers' jobs by a policy.

The process of a job goes on as the Unix account that it has; its owner, its accounting and its
place in the limits of the queue change in one transaction. Decision 0118.
"""
