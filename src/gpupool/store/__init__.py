"""The pool's memory: one database, its transactions, its event log and its wake-ups.

Below every room of the server; knows no tenant, card or job. SQLite (WAL) on one machine,
PostgreSQL by URL; both run the same contract suite.
"""
