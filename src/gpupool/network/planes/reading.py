"""Reads what decides which planes are in force, and describes it for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv4Network
from typing import Any, Final

import sqlalchemy as sa

from gpupool.network.firewall.tables import firewall_rules
from gpupool.network.machines.tables import network_machines
from gpupool.network.planes.inventory import parse_inventory
from gpupool.network.planes.management import BoundaryRule, list_exposures
from gpupool.network.planes.model import (
    EngineState,
    Evidence,
    Inventory,
    Plane,
    PlaneDemand,
    PlaneFacts,
    PlaneState,
)
from gpupool.network.planes.tables import (
    plane_demands,
    plane_evidence,
    plane_inventory,
    plane_nodes,
)
from gpupool.network.reading import read_networks
from gpupool.network.tables import networks
from gpupool.tenancy.tables import tenants
from gpupool.wire.network.planes import PlaneInventory, PlaneNodeState, PlaneOut

#: Of tenants that were not deleted: their demands end with them.
DEMANDS: Final = (
    sa.select(plane_demands, tenants.c.name.label("tenant"))
    .join(tenants, tenants.c.id == plane_demands.c.tenant_id)
    .where(tenants.c.retired_ns.is_(None))
    .order_by(plane_demands.c.id)
)
_OWNERS = (
    sa.select(plane_nodes.c.node, tenants.c.name.label("tenant"))
    .join(tenants, tenants.c.id == plane_nodes.c.tenant_id)
    .where(tenants.c.retired_ns.is_(None))
    .order_by(plane_nodes.c.id)
)
# These belong to packages above this one, so their tables are named and not imported.
_NODES: Final = sa.table(
    "nodes",
    sa.column("id"),
    sa.column("name"),
    sa.column("agent"),
    sa.column("last_seen_ns", sa.BigInteger),
)
_JOBS = sa.table("jobs", sa.column("id"), sa.column("tenant_id"))
_ALLOCATIONS = sa.table(
    "allocations", sa.column("node_id"), sa.column("job_id"), sa.column("released_ns")
)
#: Number of jobs of other tenants, by node that an admin gave to one.
GUESTS: Final = (
    sa.select(_NODES.c.name, sa.func.count().label("jobs"))
    .select_from(_ALLOCATIONS)
    .join(_NODES, _NODES.c.id == _ALLOCATIONS.c.node_id)
    .join(plane_nodes, plane_nodes.c.node == _NODES.c.name)
    .join(_JOBS, _JOBS.c.id == _ALLOCATIONS.c.job_id)
    .where(_ALLOCATIONS.c.released_ns.is_(None), _JOBS.c.tenant_id != plane_nodes.c.tenant_id)
    .group_by(_NODES.c.name)
)
_ENGINES = sa.select(
    _NODES.c.name, _NODES.c.last_seen_ns, network_machines.c.state, network_machines.c.reason
).outerjoin(network_machines, network_machines.c.agent == _NODES.c.agent)
#: Whether planes decide anything in this pool, as a column of a query.
HAS_PLANES: Final = sa.or_(
    sa.select(plane_demands.c.id).exists(), sa.select(plane_evidence.c.id).exists()
)
_IS_USED = sa.select(HAS_PLANES)


def is_used(connection: sa.Connection) -> bool:
    """Whether planes decide anything in this pool: most pools have none. Cheap."""
    return bool(connection.execute(_IS_USED).scalar_one())


def read_facts(connection: sa.Connection) -> PlaneFacts:
    """Read all that decides which planes are in force."""
    demands = tuple(map(make_demand, connection.execute(DEMANDS)))
    inventory = read_inventory(connection)
    engine = dict[str, EngineState]()
    pool_nodes = list[str]()
    for row in connection.execute(_ENGINES):
        pool_nodes.append(row.name)
        if row.state is not None:
            engine[row.name] = EngineState(row.state, row.reason, row.last_seen_ns)
    owners = {row.node: row.tenant for row in connection.execute(_OWNERS)}
    managed = {demand.tenant for demand in demands if demand.plane is Plane.MANAGEMENT}
    return PlaneFacts(
        inventory,
        demands,
        owners,
        {one.target: one for one in _read_evidence(connection)},
        tuple(pool_nodes),
        engine,
        _read_default_networks(connection),
        _read_exposures(connection, inventory, managed),
        {row.name: row.jobs for row in connection.execute(GUESTS)} if owners else {},
    )


def read_node_names(connection: sa.Connection) -> set[str]:
    """Read the names of the pool's nodes."""
    return set(connection.execute(sa.select(_NODES.c.name)).scalars())


def find_node_agent(connection: sa.Connection, node: str) -> str | None:
    """Return the agent that serves a node; None: there is no such node."""
    query = sa.select(_NODES.c.agent).where(_NODES.c.name == node)
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def make_demand(row: Any) -> PlaneDemand:
    """Make the value of a row of `DEMANDS`."""
    return PlaneDemand(row.tenant, Plane(row.plane), row.vlan or 0, row.vni or 0, row.pkey or 0)


def read_inventory(connection: sa.Connection) -> Inventory | None:
    """Read what an admin loaded last; None where none was."""
    text = connection.execute(sa.select(sa.cast(plane_inventory.c.content, sa.Text))).scalar()
    return None if text is None else _parse_content(text)


@lru_cache(maxsize=4)
def _parse_content(text: str) -> Inventory:
    # It changes rarely and is read with each grant.
    return parse_inventory(PlaneInventory.model_validate_json(text))


def hash_text(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def describe_planes(
    connection: sa.Connection, states: Iterable[PlaneState], is_visible: sa.ColumnElement[bool]
) -> list[PlaneOut]:
    """Describe the planes that visible tenants demand, in the order of tenants and planes."""
    found: dict[tuple[str, str], list[PlaneNodeState]] = defaultdict(list)
    for state in states:
        shown = PlaneNodeState(
            node=state.node,
            in_force=state.is_in_force,
            reason=state.reason,
            evidence=list(state.targets),
            seen_ns=state.seen_ns,
        )
        found[state.tenant, state.plane].append(shown)
    order = list(Plane)
    rows = connection.execute(DEMANDS.where(is_visible)).all()
    planes = list[PlaneOut]()
    for row in sorted(rows, key=lambda row: (row.tenant, order.index(Plane(row.plane)))):
        on_nodes = found[row.tenant, row.plane]
        planes.append(
            PlaneOut(
                tenant=row.tenant,
                plane=row.plane,
                vlan=row.vlan,
                vni=row.vni,
                pkey=row.pkey,
                in_force=bool(on_nodes) and all(one.in_force for one in on_nodes),
                nodes=on_nodes,
                created_ns=row.created_ns,
            )
        )
    return planes


def _read_evidence(connection: sa.Connection) -> Iterable[Evidence]:
    query = sa.select(plane_evidence).order_by(plane_evidence.c.target)
    for row in connection.execute(query):
        yield Evidence(row.target, row.text, row.source, row.reporter, row.seen_ns)


def _read_default_networks(connection: sa.Connection) -> dict[str, str]:
    query = (
        sa.select(networks.c.name, tenants.c.name.label("tenant"))
        .join(tenants, tenants.c.id == networks.c.tenant_id)
        .where(networks.c.is_default)
    )
    return {row.tenant: row.name for row in connection.execute(query)}


def _read_exposures(
    connection: sa.Connection, inventory: Inventory | None, managed: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Read the ways from networks to management prefixes, for the tenants that demand to have none."""
    if inventory is None or not managed:
        return {}
    query = (
        sa.select(networks.c.id, networks.c.public_id, tenants.c.name.label("tenant"))
        .join(tenants, tenants.c.id == networks.c.tenant_id)
        .where(tenants.c.name.in_(managed))
        .order_by(networks.c.id)
    )
    rows = connection.execute(query).all()
    if not rows:
        return {}
    found: dict[str, list[str]] = defaultdict(list)
    wanted = read_networks(connection, [row.public_id for row in rows])
    for row in rows:
        rules = _read_rules(connection, row.id)
        found[row.tenant] += list_exposures(wanted[row.public_id], inventory.management, rules)
    return {tenant: tuple(texts) for tenant, texts in found.items()}


def _read_rules(connection: sa.Connection, network_id: int) -> list[BoundaryRule]:
    of_network = sa.or_(
        firewall_rules.c.network_id.is_(None), firewall_rules.c.network_id == network_id
    )
    query = (
        sa.select(firewall_rules)
        .where(of_network, firewall_rules.c.direction == "out")
        .order_by(firewall_rules.c.number)
    )
    found = list[BoundaryRule]()
    for row in connection.execute(query):
        # Management prefixes are of IPv4.
        if ":" not in row.prefix:
            is_whole = row.protocol == "any"
            found.append(BoundaryRule(row.action, IPv4Network(row.prefix), is_whole))
    return found
