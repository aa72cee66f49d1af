"""The audit log of what people do: each act with its user, its source and the pool's answer.

Records are only added and each has the hash of the one before, so that a change in the past shows.
A change and its record are one transaction (`store.acts`); refusals follow within a second. Above
tenancy, below the server; decides nothing and refuses nothing.
"""
