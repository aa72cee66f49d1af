"""Removal of pods: evictions, deletions for recreation, failed cards, unschedulable pods."""
