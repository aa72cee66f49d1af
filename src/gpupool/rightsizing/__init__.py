"""Advises how much of a card the jobs of a family should ask for, from what earlier runs used.

It is pure: runs, offers and the time are arguments, advice and backtests are values. It must not
know databases, networks, prices or hardware. Decision 0111 says why it advises by percentiles of
decayed histograms.
"""
