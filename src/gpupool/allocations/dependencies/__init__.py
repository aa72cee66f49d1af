"""Dependencies between jobs: written with a submission, decided with the end that they await.

A dependency is decided in the transaction that ends its target, so that a server that is killed
there decides it once or not at all (decision 0109).
"""
