"""Verifies with jobs of the pool that the shares of a card are what they promise.

Submits real jobs through the client, reads what they measured, and judges. Uses no counter of the
pool: every figure comes from programs inside shares (`gpupool burn`), as a tenant would see it.
"""
