"""Shapes of advice on shares."""
