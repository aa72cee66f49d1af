"""Dependencies, retries and schedules of jobs, from what a person types."""
