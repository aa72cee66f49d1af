"""Delivery: archives for machines without a network, and the system service.

`bundle` checks an archive of `make bundle` against its sums and its signature. `unit` writes the
unit of systemd, `system_service` puts it into place. Only commands of this machine use it; it must
not know a pool, a job or a server. docs/decisions/0112-one-archive-for-machines-without-a-network.md.
"""
