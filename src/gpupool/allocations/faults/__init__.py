"""Incidents: the XIDs of a node until it is silent, the jobs that they hit, and what is proposed.

`recording` writes what agents report, in one transaction for each report, and every part of it may
come again. `service` is what people ask and answer. What an XID means is in `model.faults`; nothing
here resets a card or reboots a node (ADR 0113).
"""
