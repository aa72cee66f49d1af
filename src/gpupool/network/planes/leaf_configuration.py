"""Compiles the RoCE plane to configuration of leaf switches: FRR, and the interfaces of ifupdown2. Pure.

Each tenant has a VRF with a layer 3 VNI (RFC 9136, routes of type 5), and a VLAN on the ports of its nodes. The
underlay, that is the default BGP instance with `advertise-all-vni`, is the admin's own. Lines have the form that
`show running-config` of FRR 8.4 prints, so that a running switch can be compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from gpupool.network.planes.model import Inventory, Leaf, Plane, PlaneDemand, PlaneFacts
from gpupool.network.planes.statements import Statement, read_interfaces, read_router


def name_router_file(leaf: str) -> str:
    return f"{leaf}.frr.conf"


def name_interface_file(leaf: str) -> str:
    return f"{leaf}.interfaces"


def compile_leaves(facts: PlaneFacts) -> dict[str, str]:
    """Compile the files of every leaf, by name. Deterministic."""
    files = dict[str, str]()
    inventory = facts.inventory
    if inventory is None:
        return files
    for leaf in inventory.leaves:
        members = list_members(facts, inventory, leaf)
        evidence = facts.evidence.get(name_router_file(leaf.name))
        present = read_router("" if evidence is None else evidence.text)
        files[name_router_file(leaf.name)] = _compile_router(inventory, leaf, members, present)
        files[name_interface_file(leaf.name)] = _compile_interfaces(leaf, members)
    return files


def list_members(
    facts: PlaneFacts, inventory: Inventory, leaf: Leaf
) -> dict[PlaneDemand, list[str]]:
    """List the tenants with nodes on a leaf, by VNI, with the ports of these nodes."""
    demands = {demand.tenant: demand for demand in facts.list_demands(Plane.ROCE)}
    found: dict[PlaneDemand, list[str]] = defaultdict(list)
    for node, port in inventory.list_ports(leaf.name):
        demand = demands.get(facts.owners.get(node.name, ""))
        if demand is not None:
            found[demand].append(port)
    return dict(sorted(found.items(), key=lambda item: item[0].vni))


def compile_router(inventory: Inventory, leaf: Leaf, demand: PlaneDemand) -> list[str]:
    """Compile the lines of one tenant for FRR."""
    target = f"{inventory.route_target_asn}:{demand.vni}"
    return [
        f"vrf {demand.vrf}",
        f" vni {demand.vni}",
        "exit-vrf",
        "!",
        f"router bgp {leaf.asn} vrf {demand.vrf}",
        f" bgp router-id {leaf.router_id}",
        " !",
        " address-family ipv4 unicast",
        "  redistribute connected",
        " exit-address-family",
        " !",
        " address-family l2vpn evpn",
        "  advertise ipv4 unicast",
        f"  rd {leaf.router_id}:{demand.vni}",
        # Automatic targets hold the AS number of the leaf, so those of two leaves do not match.
        f"  route-target import {target}",
        f"  route-target export {target}",
        " exit-address-family",
        "exit",
        "!",
    ]


def compile_interfaces(leaf: Leaf, demand: PlaneDemand, ports: Iterable[str]) -> list[str]:
    """Compile the interfaces of one tenant, without the leaf's bridge."""
    lines = [
        f"# tenant {demand.tenant}",
        *_write_stanza(demand.vrf, "vrf-table auto"),
        *_write_stanza(
            f"vlan{demand.vlan}",
            f"address {leaf.gateway}",
            f"vlan-id {demand.vlan}",
            f"vlan-raw-device {leaf.bridge}",
            f"vrf {demand.vrf}",
        ),
        *_write_stanza(
            f"vx{demand.vni}",
            f"vxlan-id {demand.vni}",
            f"vxlan-local-tunnelip {leaf.router_id}",
            "bridge-learning off",
        ),
        *_write_stanza(f"br{demand.vni}", f"bridge-ports vx{demand.vni}", f"vrf {demand.vrf}"),
    ]
    for port in ports:
        lines += _write_stanza(port, f"bridge-access {demand.vlan}")
    return lines


def find_router_fault(
    inventory: Inventory, leaf: Leaf, demand: PlaneDemand, present: frozenset[Statement]
) -> str:
    """Say what a leaf's router lacks of a tenant, or has too much; empty: nothing."""
    wanted = read_router("\n".join(compile_router(inventory, leaf, demand)))
    if missing := wanted - present:
        return f"lacks `{' / '.join(min(missing))}`"
    vrf = demand.vrf
    target = f"{inventory.route_target_asn}:{demand.vni}"
    joins = list[Statement]()
    for statement in present - wanted:
        # A second route target, or routes of another VRF, would join two tenants.
        if statement[-1].startswith(("route-target ", "import ", "vni ")):
            words = statement[-1].split()
            is_ours = f" {statement[0]}".endswith(f" vrf {vrf}")
            if is_ours or (words[0] != "vni" and (target in words or vrf in words)):
                joins.append(statement)
    return f"has `{' / '.join(min(joins))}`, which was not compiled" if joins else ""


def find_interface_fault(
    leaf: Leaf, demand: PlaneDemand, ports: Iterable[str], present: frozenset[Statement]
) -> str:
    """Say what a leaf's interfaces lack for ports of a tenant, or have too much; empty: nothing."""
    wanted = read_interfaces("\n".join(compile_interfaces(leaf, demand, ports)))
    wanted |= {(f"iface {leaf.bridge}", "bridge-ports", port) for port in ports}
    if missing := wanted - present:
        return f"lacks `{' / '.join(min(missing))}`"
    own = {statement[0] for statement in wanted} - {f"iface {leaf.bridge}"}
    kinds = ("bridge-", "vrf", "vxlan-id", "vlan-")
    excess = [one for one in present - wanted if one[0] in own and one[1].startswith(kinds)]
    return f"has `{' / '.join(min(excess))}`, which was not compiled" if excess else ""


def read_port_vlans(leaf: Leaf, present: frozenset[Statement]) -> Mapping[str, frozenset[int]]:
    """Read the VLANs of each port, as ifupdown2 gives them to it."""
    found: dict[str, set[int]] = defaultdict(set)
    usual = set[int]()
    for statement in present:
        name = statement[0].removeprefix("iface ")
        words = " ".join(statement[1:]).split()
        if words[0] in ("bridge-access", "bridge-pvid", "bridge-vids"):
            vlans = _read_vlans(words[1:])
            if name == leaf.bridge:
                usual |= vlans
            else:
                found[name] |= vlans
    for statement in present:
        # A port of the bridge without lines of its own has all VLANs of the bridge.
        if statement[:2] == (f"iface {leaf.bridge}", "bridge-ports") and statement[2] not in found:
            found[statement[2]] = usual
    return {name: frozenset(vlans) for name, vlans in found.items()}


def _read_vlans(words: Iterable[str]) -> set[int]:
    found = set[int]()
    for word in words:
        first, _, last = word.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            # A VLAN has 12 bits: a larger number is none.
            found.update(range(int(first), min(int(last or first), 4095) + 1))
    return found


def _compile_router(
    inventory: Inventory,
    leaf: Leaf,
    members: Mapping[PlaneDemand, list[str]],
    present: frozenset[Statement],
) -> str:
    lines = [f"! RoCE plane of {leaf.name}, by gpupool: load it with  vtysh -f", "!"]
    lines += _remove_others(inventory, leaf, {demand.vrf for demand in members}, present)
    for demand in members:
        lines += compile_router(inventory, leaf, demand)
    return "\n".join(lines) + "\n"


def _remove_others(
    inventory: Inventory, leaf: Leaf, wanted: set[str], present: frozenset[Statement]
) -> list[str]:
    """Compile the end of VRFs that the leaf has and no tenant with a node on it: `vtysh -f` only adds."""
    lines = list[str]()
    for statement in sorted(present):
        vrf, _, vni = statement[-1].partition(" ")
        if len(statement) != 2 or vrf != "vni" or not vni.isdecimal():
            continue
        vrf = f"vrf{vni}"
        if int(vni) in inventory.vnis and statement[0] == f"vrf {vrf}" and vrf not in wanted:
            lines += [f"vrf {vrf}", f" no vni {vni}", "exit-vrf", "!"]
            lines += [f"no router bgp {leaf.asn} vrf {vrf}", "!"]
    return lines


def _compile_interfaces(leaf: Leaf, members: Mapping[PlaneDemand, list[str]]) -> str:
    lines = [f"# RoCE plane of {leaf.name}, by gpupool: load it with  ifreload -a", ""]
    ports = list[str]()
    for demand, own in members.items():
        lines += compile_interfaces(leaf, demand, own)
        ports += own
    vlans = " ".join(str(demand.vlan) for demand in members)
    if ports:
        lines += _write_stanza(
            leaf.bridge,
            "bridge-vlan-aware yes",
            f"bridge-ports {' '.join(sorted(ports))}",
            f"bridge-vids {vlans}",
        )
    return "\n".join(lines) + "\n"


def _write_stanza(name: str, *lines: str) -> list[str]:
    return [f"auto {name}", f"iface {name}", *(f"    {line}" for line in lines), ""]
