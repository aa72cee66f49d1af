"""A load for shares: what a tenant's program does to a card, in chosen ways and counted.

It is such a program itself: it takes `libcuda.so.1` as any program finds it, knows no pool and asks nobody. So what
it measures holds for programs, on real and on simulated cards, inside a job and outside.
"""
