"""The scheduler's own cycle over a virtual clock: traces in, figures out. Knows no database, no network, no card."""
