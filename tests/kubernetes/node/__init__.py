"""A package, so that its one real node is gone before the tests beside it start another."""
