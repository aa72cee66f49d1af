"""The agent's side of the job supervisor: its files and socket, control groups, and processes that
outlive it."""
