"""Traces and nodes: read from files, made by rule, or taken from a pool's event log."""
