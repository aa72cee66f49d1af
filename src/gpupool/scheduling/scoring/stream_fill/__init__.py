"""Stream Fill, the default policy: a claim goes where it displaces least of the expected demand."""
