"""Proof on the spot: whether a card's shares are what they promise, shown by jobs of the pool itself.

Submits real jobs through the client, reads what they say of themselves, and judges. Believes no counter of the
pool's own: every figure comes from programs in shares (`gpupool burn`), as a tenant would see it.
"""
