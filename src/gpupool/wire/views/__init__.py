"""Answers that a page of the console or a screen needs at once: overview, map, lists of jobs,
previews."""
