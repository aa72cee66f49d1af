"""Incidents of cards in the SDK; `incidents.Incidents` has them all."""
