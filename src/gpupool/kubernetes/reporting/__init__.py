"""Events, counters and the health of threads and tasks."""
