"""Podman for jobs on one machine: the account, the program, its arguments, the images of a user.

Knows no job and no server; `agent.jobs.container_start` puts a job together from it.
"""
