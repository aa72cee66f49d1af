"""Time slicing: how long a program runs on a shared card before the driver lets the next one run."""
