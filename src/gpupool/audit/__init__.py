"""Checks whether fenced programs use what their shares allow.

Compares what cards, processes and files show with the usage counters of fences and with what was
granted. Used by the agent of one machine and by that of a Kubernetes node, which know the owner of
each share and the reaction to a finding. Must not import an entry point.
docs/decisions/0020-audit-of-gpu-time.md.
"""
