"""What makes jobs follow one another: dependencies, retries and schedules. Pure."""
