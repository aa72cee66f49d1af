"""Schedules: jobs that are submitted again and again at the instants of a cron expression.

An instant is submitted once, whatever dies: its submission has a key of schedule and instant, which
is written in the transaction of the submission (decision 0109).
"""
