"""Admission of pods: the decision, the webhook that serves it, and its certificates."""
