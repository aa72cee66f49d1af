"""Keeps the books: what each tenant held, in whole seconds, and reports that add up exactly."""
