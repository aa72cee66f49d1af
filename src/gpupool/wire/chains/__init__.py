"""Dependencies, retries and schedules of jobs, as they cross the network."""
