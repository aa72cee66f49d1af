"""The agent of one node: prepares containers, reports cards, and measures usage."""
