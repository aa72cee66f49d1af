"""Real parts for tests (a PostgreSQL server, …): things to run against, no assertions about the
product."""
