"""Suspends idle jobs that agreed to it for claims that then start, and brings them back.

`scheduling.idle_suspension` chooses the victims. This package reads which jobs are idle, writes the
wishes, and resumes the jobs as soon as their room is free.
"""
