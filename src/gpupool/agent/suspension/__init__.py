"""Suspends and resumes the running jobs of one agent, and reports what became of it.

The calls of the driver block and may hang, so they run in a process of their own (`step`). An agent
that was killed finds the record, the step or its result, and goes on. `mechanisms.suspend` decides
the order in which processes are moved.
"""
