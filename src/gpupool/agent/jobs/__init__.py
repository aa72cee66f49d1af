"""The life of a job on its node: start, monitoring and end, each step repeatable after a crash."""
