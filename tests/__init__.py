"""The tests: unit/ mirrors the source, support/ holds the real parts that several kinds of tests
share."""
