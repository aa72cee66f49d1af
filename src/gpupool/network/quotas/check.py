"""Counts what a tenant has of each kind, and refuses more than its quota. Run in a caller's
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import TooManyNetworks
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.floating.tables import floating_ips
from gpupool.network.forwarding.tables import port_forwards
from gpupool.network.lines.tables import network_lines
from gpupool.network.quotas.tables import network_quotas
from gpupool.network.security.tables import security_groups
from gpupool.network.tables import network_peerings, networks
from gpupool.tenancy.tables import tenants
from gpupool.wire.network.quotas import name_kind

#: Jobs that are in networks of a tenant or wait for them; counted by the submissions.
JOBS: Final = "jobs"
#: By kind, the column that leads to the network; None: the networks themselves.
_PARTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "networks": None,
        "gateways": None,
        "load_balancers": load_balancers.c.network_id,
        "port_forwards": port_forwards.c.network_id,
        "floating_ips": floating_ips.c.network_id,
        "lines": network_lines.c.network_id,
        "peerings": network_peerings.c.requester_id,
        "security_groups": security_groups.c.network_id,
    }
)
KINDS: Final = (*_PARTS, JOBS)


def count_objects(connection: sa.Connection, tenant_id: int, kind: str) -> int:
    """Count what a tenant has of a kind, in all of its networks; not of jobs."""
    query = sa.select(sa.func.count()).where(networks.c.tenant_id == tenant_id)
    column = _PARTS[kind]
    if column is not None:
        query = query.select_from(column.table.join(networks, networks.c.id == column))
    elif kind == "gateways":
        query = query.select_from(networks).where(networks.c.has_gateway)
    else:
        query = query.select_from(networks)
    return int(connection.execute(query).scalar_one())


def read_quotas(connection: sa.Connection, tenant_id: int) -> dict[str, int]:
    """Read the quotas of a tenant by kind; a kind without one is left out."""
    ours = sa.select(network_quotas).where(network_quotas.c.tenant_id == tenant_id)
    return {row.kind: row.most for row in connection.execute(ours)}


def refuse_above_quota(connection: sa.Connection, tenant_id: int, kind: str) -> None:
    """Raise TooManyNetworks where a tenant has as many objects of a kind as it may."""
    most = read_quotas(connection, tenant_id).get(kind)
    if most is not None:
        _refuse(connection, tenant_id, kind, count_objects(connection, tenant_id, kind), 1, most)


def refuse_jobs_above_quota(
    connection: sa.Connection, tenant_id: int, present: int, more: int
) -> None:
    """Raise TooManyNetworks where more jobs would be in networks of a tenant than may be.

    Args:
        present: jobs that are in them or wait for them.
    """
    most = read_quotas(connection, tenant_id).get(JOBS)
    if most is not None:
        _refuse(connection, tenant_id, JOBS, present, more, most)


def _refuse(
    connection: sa.Connection, tenant_id: int, kind: str, present: int, more: int, most: int
) -> None:
    if present + more <= most:
        return
    query = sa.select(tenants.c.name).where(tenants.c.id == tenant_id)
    tenant = connection.execute(query).scalar_one()
    what = "jobs in networks" if kind == JOBS else name_kind(kind)
    asked = "" if more == 1 else f", and this asks for {more} more"
    option = f"--{kind.replace('_', '-')}"
    raise TooManyNetworks(
        f"tenant {tenant} has {present} {what}{asked}; its quota is {most}",
        hint=f"an admin changes it: gpupool network quota-set {tenant} {option} N",
        limit=most,
        present=present,
    )
