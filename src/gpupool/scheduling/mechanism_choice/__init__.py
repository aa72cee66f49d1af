"""Which mechanism a claim would get on a card: the options in order, and why others are rejected.

Pure and deterministic. It reads offers that agents publish as data (`model.isolation.mechanism_offer`) and
knows no mechanism by name. It must not know queues, quotas or what is free.
"""
