"""Answers to "why is it waiting?": what blocks a claim, what would help, and whether it can ever
start.
"""
