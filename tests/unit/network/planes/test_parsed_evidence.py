"""Evidence as values: what was never reported is not the same as nothing."""

from __future__ import annotations

from gpupool.network.planes.files import compile_files
from gpupool.network.planes.model import Evidence, Plane, PlaneDemand
from gpupool.network.planes.parsed_evidence import ParsedEvidence
from tests.support.planes import NQN, apply_files, make_facts, make_inventory

DEMANDS = (
    PlaneDemand("acme", Plane.ROCE, vlan=101, vni=4001),
    PlaneDemand("acme", Plane.INFINIBAND, pkey=0x10),
    PlaneDemand("acme", Plane.STORAGE),
)
INVENTORY = make_inventory()
LEAF = INVENTORY.leaves[0]
TARGET = INVENTORY.targets[0]


def test_what_was_never_reported_is_unknown() -> None:
    parsed = ParsedEvidence({})
    assert parsed.find_router(LEAF) is None
    assert parsed.find_interfaces(LEAF) is None
    assert parsed.find_access(TARGET) is None
    assert parsed.partitions == ()
    assert parsed.list_ports(LEAF, 101) == set()


def test_reports_are_values() -> None:
    facts = apply_files(make_facts(DEMANDS, {"node-1": "acme"}))
    parsed = ParsedEvidence(facts.evidence)
    assert ("vrf vrf4001", "vni 4001") in (parsed.find_router(LEAF) or ())
    assert parsed.list_vlans(LEAF, "swp1") == {101}
    assert parsed.list_vlans(LEAF, "swp2") == set()
    assert parsed.list_ports(LEAF, 101) == {"swp1"}
    assert [one.key for one in parsed.partitions] == [0x7FFF, 0x10]
    access = parsed.find_access(TARGET) or {}
    assert access["nqn.2026-01.example:acme"].hosts == {f"{NQN}1"}


def test_a_port_without_lines_of_its_own_has_the_vlans_of_the_bridge() -> None:
    text = compile_files(make_facts(DEMANDS, {"node-1": "acme"}))["leaf-1.interfaces"]
    text = text.replace("bridge-ports swp1", "bridge-ports swp1 swp9")
    text += "iface swp8\n    bridge-pvid 100\n    bridge-vids 101-103 5000-9999999 x\n"
    evidence = {"leaf-1.interfaces": Evidence("leaf-1.interfaces", text, "text", "root", 1)}
    parsed = ParsedEvidence(evidence)
    assert parsed.list_vlans(LEAF, "swp1") == {101}
    assert parsed.list_vlans(LEAF, "swp9") == {101}
    assert parsed.list_vlans(LEAF, "swp8") == {100, 101, 102, 103}
    assert parsed.list_ports(LEAF, 101) == {"swp1", "swp8", "swp9"}
