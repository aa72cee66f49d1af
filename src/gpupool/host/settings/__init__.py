"""Settings of a pool from its command line and environment."""
