"""Configuration of leaf switches: what is compiled, and what of a running switch is accepted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpupool.network.planes.leaf_configuration import (
    compile_leaves,
    find_interface_fault,
    find_router_fault,
    list_members,
)
from gpupool.network.planes.model import Evidence, Plane, PlaneDemand
from gpupool.network.planes.statements import read_interfaces, read_router
from tests.support.planes import make_facts, make_inventory

INVENTORY = make_inventory()
LEAF = INVENTORY.leaves[0]
ACME = PlaneDemand("acme", Plane.ROCE, vlan=101, vni=4001)
OTHER = PlaneDemand("other", Plane.ROCE, vlan=102, vni=4002)
FACTS = make_facts((ACME, OTHER), {"node-1": "acme", "node-2": "other"})


def test_each_tenant_has_a_vrf_and_a_vlan_on_the_ports_of_its_nodes() -> None:
    files = compile_leaves(FACTS)
    assert list(files) == [
        "leaf-1.frr.conf",
        "leaf-1.interfaces",
        "leaf-2.frr.conf",
        "leaf-2.interfaces",
    ]
    router = read_router(files["leaf-1.frr.conf"])
    for vni in (4001, 4002):
        context = (f"router bgp 64601 vrf vrf{vni}", "address-family l2vpn evpn")
        assert (f"vrf vrf{vni}", f"vni {vni}") in router
        targets = {one[-1] for one in router if one[:2] == context and "target" in one[-1]}
        assert targets == {
            f"route-target import 64512:{vni}",
            f"route-target export 64512:{vni}",
        }
    interfaces = read_interfaces(files["leaf-1.interfaces"])
    assert ("iface swp1", "bridge-access 101") in interfaces
    assert ("iface swp2", "bridge-access 102") in interfaces
    assert ("iface bridge", "bridge-ports", "swp2") in interfaces
    # Equal addresses of both tenants, each in a VRF of its own.
    for vlan, vni in ((101, 4001), (102, 4002)):
        assert (f"iface vlan{vlan}", "address 10.1.0.1/24") in interfaces
        assert (f"iface vlan{vlan}", f"vrf vrf{vni}") in interfaces


def test_a_tenant_without_a_node_on_a_leaf_is_not_on_it() -> None:
    facts = make_facts((ACME, OTHER), {"node-1": "acme"})
    assert list_members(facts, INVENTORY, LEAF) == {ACME: ["swp1"]}
    assert "4002" not in "".join(compile_leaves(facts).values())


def test_a_vrf_of_a_tenant_that_left_is_removed() -> None:
    applied = compile_leaves(FACTS)["leaf-1.frr.conf"]
    evidence = {"leaf-1.frr.conf": Evidence("leaf-1.frr.conf", applied, "hash", "root", 1)}
    facts = make_facts((ACME,), {"node-1": "acme"}, evidence)
    text = compile_leaves(facts)["leaf-1.frr.conf"]
    assert " no vni 4002\n" in text
    assert "no router bgp 64601 vrf vrf4002\n" in text
    assert "no router bgp 64601 vrf vrf4001" not in text


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", ""),
        (" vni 4001\n", "", "lacks `vrf vrf4001 / vni 4001`"),
        (
            "  route-target import 64512:4001\n",
            "  route-target import 64512:4001\n  route-target import 64512:4002\n",
            "route-target import 64512:4002`, which was not compiled",
        ),
        (
            "  redistribute connected\n",
            "  redistribute connected\n  import vrf vrf4002\n",
            "import vrf vrf4002`, which was not compiled",
        ),
        ("  advertise ipv4 unicast\n", "", "lacks `router bgp 64601 vrf vrf4001 / address-family"),
        (
            "  route-target import 64512:4002\n",
            "  route-target import 64512:4002\n  route-target import 64512:4001\n",
            "vrf vrf4002 / address-family l2vpn evpn / route-target import 64512:4001`",
        ),
        (
            "router bgp 64601 vrf vrf4002\n",
            "router bgp 64601 vrf vrf4002\n import vrf vrf4001\n",
            "import vrf vrf4001`, which was not compiled",
        ),
        # A VRF whose name begins as that of the tenant, with what is its own.
        ("vrf4002\n vni 4002", "vrf40010\n vni 40010", ""),
    ],
)
def test_a_router_is_accepted_only_with_what_was_compiled(old: str, new: str, fault: str) -> None:
    text = compile_leaves(FACTS)["leaf-1.frr.conf"].replace(old, new, 1)
    found = find_router_fault(INVENTORY, LEAF, ACME, read_router(text))
    assert (fault in found) if fault else found == ""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", ""),
        ("bridge-access 101", "bridge-access 102", "lacks `iface swp1 / bridge-access 101`"),
        (
            "bridge-access 101",
            "bridge-access 101\n    bridge-vids 102",
            "has `iface swp1 / bridge-vids / 102`",
        ),
        (
            "bridge-ports swp1 swp2",
            "bridge-ports swp2",
            "lacks `iface bridge / bridge-ports / swp1`",
        ),
        ("    vrf vrf4001\n", "    vrf vrf4002\n", "lacks `iface vlan101 / vrf vrf4001`"),
    ],
)
def test_interfaces_are_accepted_only_as_compiled(old: str, new: str, fault: str) -> None:
    text = compile_leaves(FACTS)["leaf-1.interfaces"].replace(old, new, 1)
    found = find_interface_fault(LEAF, ACME, ["swp1"], read_interfaces(text))
    assert (fault in found) if fault else found == ""


@pytest.mark.skipif(shutil.which("vtysh") is None, reason="needs the package frr")
def test_frr_accepts_the_compiled_files(tmp_path: Path) -> None:
    for name, text in compile_leaves(FACTS).items():
        if not name.endswith(".frr.conf"):
            continue
        path = tmp_path / name
        for content, code in ((text, 0), (text.replace("vni 4001", "vni many"), 2)):
            path.write_text(content)
            command = ["vtysh", "-C", "-f", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == code, done.stdout + done.stderr
