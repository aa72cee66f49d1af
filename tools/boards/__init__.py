"""Boards of Grafana as Python, written to deploy/grafana by `tools/gen_boards.py`."""
