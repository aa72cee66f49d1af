"""The pool on a cluster: what waits, what is held and what is where lives in the API server, and we
extend it.

Pods are the claims and `GpuNode` objects the ledger. The deciding is `scheduling`'s, the foreign
words are `dialects`', the fence and the agent are those of one machine; here is what joins them to
a cluster. No SQL in this room.
"""
