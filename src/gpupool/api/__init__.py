"""What every package's routes of the HTTP API are made of: a router whose routes are built when the
first request needs them, so that a server's start does not wait for the others."""
