"""Preemption: the choice of victims, their beneficiaries, and which evictions would be in vain."""
