"""Checks that northbound databases have what is wanted. Speaks through `ovn` alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpupool.network.model import Network
from gpupool.network.northbound import compile_network
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.rows import plan_changes
from gpupool.wire.network.promises import NetworkCheck


def check_drift(wanted: Mapping[str, Iterable[Network]], pool: str) -> NetworkCheck:
    """Compare every row of networks. Raises NetworkingUnavailable.

    Args:
        wanted: networks by the database that has them.
    """
    rows = 0
    different = list[str]()
    for remote, networks in wanted.items():
        database = NorthboundDatabase(remote, pool)
        try:
            for network in networks:
                compiled = compile_network(network)
                rows += len(compiled)
                changes = plan_changes(compiled, database.observe(network.key))
                different += [row.key for row in (*changes.created, *changes.deleted)]
                different += [update.key for update in changes.updated]
        finally:
            database.close()
    reason = f"not as wanted: {', '.join(different[:5])}" if different else ""
    return NetworkCheck(
        name="drift",
        kept=not different,
        measured=f"{rows} rows compared, {len(different)} different",
        reason=reason,
    )
