"""Keeps how much of a card each job used for how long: one histogram per job, for advice on shares.

`pending` holds what was measured since the last write, `tables` the rows, `writing` adds the one to
the other. Knows no advice: `gpupool.rightsizing` makes it of what is read here. See decision 0111.
"""
