"""Which nodes placement may hand to which tenant. Everything runs in the caller's transaction.

A tenant that demands planes gets a node where all of them are in force; the other tenants get nodes that are in no
tenant's plane.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa

from gpupool.base.errors import StaleGeneration, WrongState
from gpupool.model.claim import NO_NETWORK_LABEL, PLANES_LABEL, describe_planes_label
from gpupool.network.planes.evaluation import (
    evaluate_planes,
    list_closed_nodes,
    list_nodes,
    list_ready_nodes,
)
from gpupool.network.planes.model import NETWORK_PLANES, PlaneFacts
from gpupool.network.planes.reading import is_used, read_facts
from gpupool.network.planes.tables import plane_demands
from gpupool.network.tables import networks

Label = tuple[str, str]


class NodeGrant(NamedTuple):
    """A node that a plan gives to a job of a tenant."""

    tenant: str
    node: str
    has_network: bool


#: Nodes that an explanation names.
_NAMED = 8
# Statements are made once: each submission runs one of them.
_NETWORK_DEMANDS = sa.select(
    sa.literal_column("0").label("is_network"), plane_demands.c.plane.label("name")
).where(
    plane_demands.c.tenant_id == sa.bindparam("tenant"),
    plane_demands.c.plane.in_(sorted(NETWORK_PLANES)),
)
_DEFAULT_OR_DEMANDS = sa.union_all(
    sa.select(sa.literal_column("1").label("is_network"), networks.c.name).where(
        networks.c.tenant_id == sa.bindparam("tenant"), networks.c.is_default
    ),
    _NETWORK_DEMANDS,
)


@dataclass(frozen=True)
class NodeGate:
    """What claims of tenants need, and which nodes have it.

    Attributes:
        tenants: those with demands.
        networked: those whose jobs need a network for their planes.
        is_closed: whether claims of the other tenants need a label, since some nodes are not for them.
        has_guests: whether nodes of tenants still run jobs of others, whose end opens the node.
        labels: of nodes, by name.
    """

    tenants: frozenset[str] = frozenset()
    networked: frozenset[str] = frozenset()
    is_closed: bool = False
    has_guests: bool = False
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def is_used(self) -> bool:
        """Whether planes keep claims away from nodes."""
        return bool(self.tenants) or self.is_closed

    @property
    def needs(self) -> tuple[frozenset[str], frozenset[str], bool]:
        """What the labels of claims depend on."""
        return self.tenants, self.networked, self.is_closed

    def find_labels(self, tenant: str, *, has_network: bool) -> tuple[Label, ...]:
        """Return the labels that a claim of a tenant needs; none: it fits everywhere."""
        if tenant not in self.tenants:
            return (PLANES_LABEL,) if self.is_closed else ()
        label = describe_planes_label(tenant)
        if tenant in self.networked and not has_network:
            # No node has it: the claim was submitted before the demand, and waits.
            return label, NO_NETWORK_LABEL
        return (label,)


def read_gate(connection: sa.Connection, names: Collection[str] | None = None) -> NodeGate:
    """Read which nodes are ready for which tenant. Cheap where planes are not used.

    Args:
        names: nodes to look at; None: all.
    """
    if not is_used(connection):
        return NodeGate()
    facts = read_facts(connection)
    ready, closed = list_ready_nodes(facts, names)
    labels: dict[str, dict[str, str]] = defaultdict(dict)
    for node in facts.pool_nodes if names is None else names:
        if node not in closed:
            key, value = PLANES_LABEL
            labels[node][key] = value
    for tenant, own in ready.items():
        key, value = describe_planes_label(tenant)
        for node in own:
            labels[node][key] = value
    networked = {one.tenant for one in facts.demands if one.plane in NETWORK_PLANES}
    return NodeGate(
        frozenset(ready), frozenset(networked), bool(closed), bool(facts.guests), dict(labels)
    )


def refuse_closed_nodes(connection: sa.Connection, grants: Collection[NodeGrant]) -> None:
    """Raise StaleGeneration where a plan grants a node that its tenant may not have now."""
    gate = read_gate(connection, {grant.node for grant in grants})
    for grant in grants:
        wanted = gate.find_labels(grant.tenant, has_network=grant.has_network)
        present = gate.labels.get(grant.node, {})
        if any(key not in present for key, _ in wanted):
            raise StaleGeneration(
                f"the planes of {grant.node} changed while the plan for {grant.tenant} was made",
                hint="the pool plans again by itself",
            )


def require_no_networks(connection: sa.Connection, tenant_id: int) -> None:
    """Raise WrongState where planes of a tenant hold only for jobs in a network."""
    rows = connection.execute(_NETWORK_DEMANDS, {"tenant": tenant_id})
    _refuse_outside([row.name for row in rows])


def find_default_network(connection: sa.Connection, tenant_id: int) -> str | None:
    """Return the network of a tenant's jobs that name none; None: they join none.

    Raises:
        WrongState: they join none, and planes of the tenant need one.
    """
    rows = connection.execute(_DEFAULT_OR_DEMANDS, {"tenant": tenant_id}).all()
    for row in rows:
        if row.is_network:
            return str(row.name)
    _refuse_outside([row.name for row in rows])
    return None


def _refuse_outside(planes: Collection[str]) -> None:
    if planes:
        raise WrongState(
            f"a job of a tenant that demands {' and '.join(sorted(planes))} needs a network",
            hint="--network NAME, or for all jobs: gpupool network default NAME",
        )


def explain_nodes(connection: sa.Connection, tenant: str, *, is_outside: bool) -> list[str]:
    """Say which plane of which node keeps a claim of a tenant away, one sentence a node.

    Args:
        is_outside: whether its jobs are in no network, and planes of the tenant need one.
    """
    if is_outside:
        return ["planes of its tenant need a network: submit it again with --network NAME"]
    if not is_used(connection):
        return []
    facts = read_facts(connection)
    found = _explain_demands(facts, tenant)
    more = [f"and {len(found) - _NAMED} more: gpupool network plane-list"]
    return found[:_NAMED] + (more if len(found) > _NAMED else [])


def _explain_demands(facts: PlaneFacts, tenant: str) -> list[str]:
    demands = [demand for demand in facts.demands if demand.tenant == tenant]
    closed = list_closed_nodes(facts)
    if not demands:
        # Of the nodes of other tenants only the number: their names are the tenants' own.
        count = len(closed)
        nodes = "1 node is" if count == 1 else f"{count} nodes are"
        return [f"{nodes} for tenants with planes, or not out of them yet"] if closed else []
    if not list_nodes(facts, tenant):
        planes = ", ".join(demand.plane for demand in demands)
        command = f"gpupool network plane-nodes --tenant {tenant} NODE"
        return [f"{tenant} demands {planes} and has no node for it: an admin runs  {command}"]
    found = [
        f"{state.node}: {state.plane} is not in force: {state.reason}"
        for state in evaluate_planes(facts)
        if state.tenant == tenant and not state.is_in_force
    ]
    for node in list_nodes(facts, tenant):
        if node in closed and node not in facts.owners:
            found.append(f"{node}: {closed[node]}")
    return found
