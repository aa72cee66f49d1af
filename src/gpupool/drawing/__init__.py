"""Draws plots and pages as text: SVG inside one HTML file, without scripts or libraries.

Must not know cards or jobs.
"""
