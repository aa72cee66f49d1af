"""The scheduler: decides, never acts. `plan = cycle(snapshot, now_ns)` is pure and deterministic."""
