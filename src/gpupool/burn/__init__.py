"""Loads a card as a tenant's program does, in chosen ways, and counts the work.

Opens `libcuda.so.1` as any program does and must not import pools or servers. So its figures hold
for programs, on real and on simulated cards, inside a job and outside.
docs/decisions/0053-own-cuda-driver-for-loads.md.
"""
