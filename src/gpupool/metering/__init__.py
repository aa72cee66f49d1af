"""The books: who held what, for how many whole seconds, and reports that close."""
