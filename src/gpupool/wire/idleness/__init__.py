"""Shapes of idle policies and idle jobs."""
