"""The prefix outside that an admin opens for floating IPs. Runs in the caller's transaction."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import sqlalchemy as sa

from gpupool.base.errors import StillInUse
from gpupool.network.floating.choices import list_usable, parse_floating_prefix
from gpupool.network.floating.tables import floating_ips, floating_prefix
from gpupool.store.write_transaction import WriteTransaction


def read_floating_prefix(connection: sa.Connection) -> str:
    """Read the prefix that is open; empty: none is."""
    found = connection.execute(sa.select(floating_prefix.c.prefix)).scalar_one_or_none()
    return str(found or "")


def open_floating_prefix(write: WriteTransaction, text: str) -> None:
    """Open a prefix in place of the one before; an empty text closes it. Idempotent.

    Raises:
        BadAddress: `text` is no prefix that something outside reaches.
        StillInUse: floating IPs would be outside of it.
    """
    prefix = parse_floating_prefix(text) if text else None
    _refuse_closing(write.connection, prefix)
    write.execute(floating_prefix.delete())
    if prefix is not None:
        write.insert(floating_prefix, id=1, prefix=str(prefix))


def _refuse_closing(connection: sa.Connection, prefix: IPv4Network | None) -> None:
    query = sa.select(floating_ips.c.address)
    used = sorted(map(IPv4Address, connection.execute(query).scalars()))
    usable = set[IPv4Address]() if prefix is None else set(list_usable(prefix))
    outside = [str(address) for address in used if address not in usable]
    if outside:
        raise StillInUse(
            f"{len(outside)} floating IPs would be outside: {', '.join(outside[:5])}",
            hint="gpupool network floating-ip-list NETWORK --tenant TENANT",
            addresses=outside,
        )
