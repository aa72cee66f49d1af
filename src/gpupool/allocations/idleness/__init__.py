"""The idle ladder: warn, shrink, suspend or stop a job whose share is not used, by a policy (ADR 0110).

`ladder` and `policy` are pure: they say which step is due. `watch` looks at the running jobs and
takes the steps, each in one transaction with its event. It decides on the fence's ledger and on what
passes through the pool, never on Prometheus. `idle_suspension` beside it lends the card of an idle job
to a claim that waits; it also brings back what the ladder has suspended.
"""
