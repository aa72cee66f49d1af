"""Whether fenced programs take what their shares allow: cards, processes and files against ledgers and grants.

Used by the agent of one machine and by that of a Kubernetes node, which say what belongs to whom and what a finding
does. Imports no entry point. docs/decisions/0020-audit-of-gpu-time.md.
"""
