"""Commands for jobs: run, submit, ps, logs, stop, queue, explain, and what they read."""
