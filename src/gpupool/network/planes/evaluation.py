"""Decides from evidence which planes are in force, and which nodes are ready for which tenant. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from gpupool.network.planes.inventory_checks import list_findings
from gpupool.network.planes.leaf_configuration import (
    find_interface_fault,
    find_router_fault,
    list_members,
    name_interface_file,
    name_router_file,
)
from gpupool.network.planes.model import (
    NODE_PLANES,
    Inventory,
    Leaf,
    Plane,
    PlaneDemand,
    PlaneFacts,
    PlaneNode,
    PlaneState,
)
from gpupool.network.planes.node_readings import (
    STALE,
    TOO_OLD,
    find_foreign_connection,
    find_guid_fault,
    find_host_fault,
    find_rail_fault,
    name_host_file,
    name_rail_file,
)
from gpupool.network.planes.parsed_evidence import ParsedEvidence
from gpupool.network.planes.partitions import (
    FILE as PARTITIONS,
)
from gpupool.network.planes.partitions import (
    find_key_fault,
    find_partition_fault,
    list_guids,
    name_key_file,
    read_port_keys,
)
from gpupool.network.planes.storage_access import (
    find_access_fault,
    list_hosts,
    name_target_file,
)

_NO_REPORT: Final = "was never reported: gpupool network plane-compile, apply it, plane-report"


def evaluate_planes(facts: PlaneFacts) -> list[PlaneState]:
    """Evaluate every plane that is demanded, on each node that its tenant may get."""
    return list(_Evaluation(facts).evaluate())


def list_ready_nodes(
    facts: PlaneFacts, names: Collection[str] | None = None
) -> tuple[dict[str, set[str]], dict[str, str]]:
    """List the nodes that each tenant with demands gets, since all its planes are in force there.

    Args:
        names: nodes to look at; None: all.

    Returns:
        The nodes by tenant, and those that no tenant without demands gets, with the reason.
    """
    evaluation = _Evaluation(facts)
    closed = evaluation.list_closed_nodes(names)
    ready = dict[str, set[str]]()
    for tenant in {demand.tenant for demand in facts.demands}:
        own = list_nodes(facts, tenant)
        ready[tenant] = {name for name in own if facts.owners.get(name) or name not in closed}
        if names is not None:
            ready[tenant] &= set(names)
    for state in evaluation.evaluate(names):
        if not state.is_in_force:
            ready[state.tenant].discard(state.node)
    return ready, closed


def list_closed_nodes(facts: PlaneFacts) -> dict[str, str]:
    """List the nodes that no tenant without demands gets, with the reason.

    Beside nodes of tenants those are nodes that were given back and are still in a plane of their last tenant.
    """
    return _Evaluation(facts).list_closed_nodes(None)


class _Evaluation:
    """One evaluation: what all nodes share is computed once."""

    def __init__(self, facts: PlaneFacts) -> None:
        self.facts = facts
        self._parsed = ParsedEvidence(facts.evidence)
        self._members: dict[str, Mapping[PlaneDemand, list[str]]] = {}
        self._router_faults: dict[tuple[str, PlaneDemand], str] = {}

    @cached_property
    def _nodes(self) -> Mapping[str, PlaneNode]:
        inventory = self.facts.inventory
        return {} if inventory is None else {node.name: node for node in inventory.nodes}

    @cached_property
    def _leaves(self) -> Mapping[str, Leaf]:
        inventory = self.facts.inventory
        return {} if inventory is None else {leaf.name: leaf for leaf in inventory.leaves}

    @cached_property
    def _findings(self) -> Mapping[str, list[str]]:
        return {} if self.facts.inventory is None else list_findings(self.facts.inventory)

    def list_closed_nodes(self, names: Collection[str] | None) -> dict[str, str]:
        found = {
            node: f"{node} is a node of {tenant}" for node, tenant in self.facts.owners.items()
        }
        inventory = self.facts.inventory
        if inventory is None:
            return found
        for node in inventory.nodes:
            if node.name in found or (names is not None and node.name not in names):
                continue
            if rest := self.find_rest(inventory, node):
                found[node.name] = rest
        return found

    def evaluate(self, names: Collection[str] | None = None) -> Iterator[PlaneState]:
        by_tenant: dict[str, list[PlaneDemand]] = defaultdict(list)
        for demand in self.facts.demands:
            by_tenant[demand.tenant].append(demand)
        for tenant, demands in sorted(by_tenant.items()):
            for node in list_nodes(self.facts, tenant):
                if names is not None and node not in names:
                    continue
                for demand in sorted(demands, key=lambda one: list(Plane).index(one.plane)):
                    yield self._evaluate_node(demand, node)

    def _evaluate_node(self, demand: PlaneDemand, name: str) -> PlaneState:
        match demand.plane:
            case Plane.ETHERNET:
                return self._evaluate_ethernet(demand, name)
            case Plane.MANAGEMENT:
                return self._evaluate_management(demand, name)
        inventory = self.facts.inventory
        node = self._nodes.get(name)
        if inventory is None or node is None:
            return self._conclude(demand, name, [f"{name} is not in the inventory of planes"], [])
        rest = self.find_rest(inventory, node, demand.tenant)
        faults = [rest] if rest else []
        if guests := self.facts.guests.get(name, 0):
            jobs = "1 job of another tenant runs" if guests == 1 else f"{guests} jobs of others run"
            faults.append(f"{jobs} on {name}")
        match demand.plane:
            case Plane.ROCE:
                targets = self._check_roce(inventory, demand, node, faults)
            case Plane.INFINIBAND:
                targets = self._check_infiniband(inventory, demand, node, faults)
            case Plane.STORAGE:
                targets = self._check_storage(inventory, demand, node, faults)
        return self._conclude(demand, name, faults, targets)

    def _evaluate_ethernet(self, demand: PlaneDemand, node: str) -> PlaneState:
        network = self.facts.default_networks.get(demand.tenant)
        engine = self.facts.engine.get(node)
        if network is None:
            reason = f"{demand.tenant} has no default network: gpupool network default NAME"
        elif engine is None:
            reason = f"{node} is no part of the engine of networks: gpupool network status"
        elif engine.state != "ready":
            cause = f": {engine.reason}" if engine.reason else ""
            reason = f"the engine of networks on {node} is {engine.state}{cause}"
        else:
            reason = f"network {network}; the agent of {node} reports a ready engine"
            return PlaneState(
                demand.tenant, demand.plane, node, True, reason, ("engine",), engine.seen_ns
            )
        return PlaneState(demand.tenant, demand.plane, node, False, reason)

    def _evaluate_management(self, demand: PlaneDemand, node: str) -> PlaneState:
        faults = list(self.facts.exposures.get(demand.tenant, ()))
        inventory = self.facts.inventory
        if inventory is None or not inventory.management:
            faults = ["the inventory of planes has no management prefixes"]
        return self._conclude(demand, node, faults, [], "no network leads to a management prefix")

    def _check_roce(
        self, inventory: Inventory, demand: PlaneDemand, node: PlaneNode, faults: list[str]
    ) -> list[str]:
        """Add what is wrong to `faults`; return the names of the evidence that decides."""
        faults += self._findings.get(node.name, ())
        if not node.rails:
            faults.append(f"the inventory has no rails of {node.name}")
        targets = list[str]()
        for name in dict.fromkeys(rail.leaf for rail in node.rails):
            leaf = self._leaves[name]
            ports = [rail.port for rail in node.rails if rail.leaf == name]
            targets += [name_router_file(name), name_interface_file(name)]
            faults += self._list_leaf_faults(inventory, leaf, demand, ports)
        if rails := self._find_reading(name_rail_file(node.name), targets, faults):
            fault = find_rail_fault(inventory, demand, rails)
            faults += [f"{node.name} {fault}"] if fault else []
        return targets

    def _list_leaf_faults(
        self, inventory: Inventory, leaf: Leaf, demand: PlaneDemand, ports: list[str]
    ) -> Iterator[str]:
        if fault := self._find_router_fault(inventory, leaf, demand):
            yield f"{name_router_file(leaf.name)} {fault}"
        name = name_interface_file(leaf.name)
        interfaces = self._parsed.find_interfaces(leaf)
        if interfaces is None:
            yield f"{name} {_NO_REPORT}"
            return
        if fault := find_interface_fault(leaf, demand, ports, interfaces):
            yield f"{name} {fault}"
        if leaf.name not in self._members:
            self._members[leaf.name] = list_members(self.facts, inventory, leaf)
        own = self._members[leaf.name].get(demand, ())
        for port in sorted(self._parsed.list_ports(leaf, demand.vlan).difference(own)):
            yield f"{name} has {port} in VLAN {demand.vlan}, which is no port of {demand.tenant}"

    def _find_router_fault(self, inventory: Inventory, leaf: Leaf, demand: PlaneDemand) -> str:
        key = (leaf.name, demand)
        if key not in self._router_faults:
            present = self._parsed.find_router(leaf)
            if present is None:
                self._router_faults[key] = _NO_REPORT
            else:
                self._router_faults[key] = find_router_fault(inventory, leaf, demand, present)
        return self._router_faults[key]

    def _check_infiniband(
        self, inventory: Inventory, demand: PlaneDemand, node: PlaneNode, faults: list[str]
    ) -> list[str]:
        targets = [PARTITIONS]
        if not node.guids:
            faults.append(f"the inventory has no GUIDs of {node.name}")
        if PARTITIONS not in self.facts.evidence:
            faults.append(f"{PARTITIONS} {_NO_REPORT}")
        else:
            allowed = list_guids(self.facts, inventory, demand.tenant)
            fault = find_partition_fault(node, demand, allowed, self._parsed.partitions)
            faults += [f"{PARTITIONS} {fault}"] if fault else []
        name = name_key_file(node.name)
        if keys := self._find_reading(name, targets, faults):
            fault = find_key_fault(demand, read_port_keys(keys))
            fault = fault or find_guid_fault(node, keys)
            faults += [f"the ports of {node.name} {fault}"] if fault else []
        return targets

    def _find_reading(self, target: str, targets: list[str], faults: list[str]) -> str:
        """Return what a node shows itself, with what is wrong with it as a reading; empty: nothing."""
        one = self.facts.evidence.get(target)
        if one is None:
            return ""
        targets.append(target)
        if one.source == STALE:
            faults.append(f"{target} {TOO_OLD}")
        return one.text

    def _check_storage(
        self, inventory: Inventory, demand: PlaneDemand, node: PlaneNode, faults: list[str]
    ) -> list[str]:
        targets = list[str]()
        if not node.nqn:
            faults.append(f"the inventory has no host NQN of {node.name}")
        hosts = list_hosts(self.facts, demand.tenant)
        for target in inventory.targets:
            own = [one for one in target.subsystems if one.tenant == demand.tenant]
            if not own:
                continue
            name = name_target_file(target)
            targets.append(name)
            present = self._parsed.find_access(target)
            if present is None:
                faults.append(f"{name} {_NO_REPORT}")
                continue
            found = (find_access_fault(one, hosts, present) for one in own)
            faults += [f"{name} {fault}" for fault in found if fault]
        if not targets:
            faults.append(f"no storage target has a subsystem of {demand.tenant}")
        if shown := self._find_reading(name_host_file(node.name), targets, faults):
            fault = find_host_fault(node, shown)
            faults += [f"{node.name} {fault}"] if fault else []
        return targets

    def _conclude(
        self,
        demand: PlaneDemand,
        node: str,
        faults: Iterable[str],
        targets: Iterable[str],
        sentence: str = "",
    ) -> PlaneState:
        names = tuple(targets)
        listed = list(faults)
        evidence = [self.facts.evidence[name] for name in names if name in self.facts.evidence]
        seen_ns = min((one.seen_ns for one in evidence), default=None)
        reason = listed[0] if listed else sentence or f"{', '.join(names)} as compiled"
        if len(listed) > 1:
            reason += f" (and {len(listed) - 1} more)"
        found = tuple(one.target for one in evidence)
        return PlaneState(demand.tenant, demand.plane, node, not listed, reason, found, seen_ns)

    def find_rest(self, inventory: Inventory, node: PlaneNode, tenant: str = "") -> str:
        """Say in which plane a node is, by the evidence, that is not its tenant's; empty: in none."""
        own = [demand for demand in self.facts.demands if demand.tenant == tenant]
        own_vlans = {one.vlan for one in own}
        for rail in node.rails:
            vlans = self._parsed.list_vlans(self._leaves[rail.leaf], rail.port)
            foreign = vlans.intersection(inventory.vlans) - own_vlans
            if foreign:
                return f"{node.name} is still in VLAN {min(foreign)} on {rail.leaf} {rail.port}"
        own_keys = {one.pkey for one in own}
        for partition in self._parsed.partitions:
            is_foreign = partition.key in inventory.pkeys and partition.key not in own_keys
            if is_foreign and partition.members.intersection(node.guids):
                return f"{node.name} is still in partition {partition.key:#06x}"
        return self._find_foreign_storage(inventory, node, {one.tenant for one in own})

    def _find_foreign_storage(
        self, inventory: Inventory, node: PlaneNode, tenants: set[str]
    ) -> str:
        hosts = self.facts.evidence.get(name_host_file(node.name))
        if hosts is not None and find_foreign_connection(inventory, tenants, hosts.text):
            return f"{node.name} is still connected to storage of another tenant"
        for target in inventory.targets:
            access = self._parsed.find_access(target) or {}
            for one in target.subsystems:
                has = access.get(one.nqn)
                if has is not None and node.nqn in has.hosts and one.tenant not in tenants:
                    return (
                        f"{node.name} is still let into storage of another tenant by {target.name}"
                    )
        return ""


def list_nodes(facts: PlaneFacts, tenant: str) -> list[str]:
    """List the nodes that a tenant with demands may get: its own, where it demands a plane of nodes."""
    if any(one.tenant == tenant and one.plane in NODE_PLANES for one in facts.demands):
        return sorted(node for node, owner in facts.owners.items() if owner == tenant)
    return sorted(node for node in facts.pool_nodes if facts.owners.get(node, tenant) == tenant)
