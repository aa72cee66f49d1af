"""Histories: what concurrent clients asked and were answered while a pool was killed, paused and
its clock stepped.

`campaign` runs clients and faults on a real pool and records every request; `models` says what one
object of a pool does when requests come one after the other; `linearizability` decides whether some
order of the requests that fits their real times explains all answers. A history that has no such
order is a broken promise.
"""
