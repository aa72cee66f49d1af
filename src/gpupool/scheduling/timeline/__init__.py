"""Time: ends of running jobs, reservations, held capacity, and searches for the earliest start."""
