"""Tests with real parts of a host: QEMU, containers, daemons. Run by `make test-hosts`."""
