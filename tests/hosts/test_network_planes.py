"""Planes of tenants with real peers: FRR, opensm on a simulated fabric, and the page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from gpupool.network.model import Gateway, PeeringEnd
from gpupool.network.northbound import name_port
from gpupool.network.planes.leaf_configuration import compile_leaves, find_router_fault
from gpupool.network.planes.management import list_exposures
from gpupool.network.planes.model import Evidence, Plane, PlaneDemand
from gpupool.network.planes.partitions import compile_partitions, find_key_fault
from gpupool.network.planes.statements import Statement, read_router
from tests.e2e.pool_fixture import RealPool
from tests.support.infiniband_fabric import InfinibandFabric, find_missing_fabric
from tests.support.leaf_fabric import PROGRAMS, LeafFabric, run, start_daemon
from tests.support.ovn_trace import TracedNetworks
from tests.support.pages import PAGES, write_files
from tests.support.planes import make_facts, make_inventory
from tests.support.typed_commands import commands
from tests.unit.network.networks import make_network

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
needs_frr = pytest.mark.skipif(not (PROGRAMS / "bgpd").exists(), reason="needs frr")

INVENTORY = make_inventory()
ACME = PlaneDemand("acme", Plane.ROCE, vlan=101, vni=4001)
OTHER = PlaneDemand("other", Plane.ROCE, vlan=102, vni=4002)
FACTS = make_facts((ACME, OTHER), {"node-1": "acme", "node-2": "other"})
PAGE = "network-planes.md"


@needs_frr
def test_servers_of_a_tenant_reach_each_other_over_leaves_and_no_twin() -> None:
    files = compile_leaves(FACTS)
    with LeafFabric(INVENTORY.leaves, (ACME, OTHER), files) as fabric:
        fabric.until_routes()
        first, second = fabric.leaves
        for demand, twin in ((ACME, OTHER), (OTHER, ACME)):
            assert fabric.can_reach(demand, first, fabric.find_server(second, demand))
            assert not fabric.can_reach(demand, first, fabric.find_server(second, twin))


@pytest.fixture
def switch() -> Iterator[Path]:
    """The directory of the control sockets of a leaf that runs FRR."""
    directory = Path(tempfile.mkdtemp(prefix="gpe-"))
    (directory / "zebra.conf").write_text("")
    (directory / "bgpd.conf").write_text("router bgp 64601\n no bgp default ipv4-unicast\n")
    shutil.chown(directory, "frr", "frr")
    space = f"gpe{os.getpid()}-r"
    run("ip", "netns", "add", space)
    processes = list[subprocess.Popen[bytes]]()
    try:
        for program in ("zebra", "bgpd"):
            processes.append(start_daemon(program, directory, space))
        yield directory
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(10)
        run("ip", "netns", "del", space)
        shutil.rmtree(directory)


def load(switch: Path, text: str) -> str:
    """Load a file as the page says; return what the switch says that it has."""
    path = switch / "leaf-1.frr.conf"
    path.write_text(text)
    run("vtysh", "--vty_socket", str(switch), "-f", str(path))
    return run("vtysh", "--vty_socket", str(switch), "-c", "show running-config")


@needs_frr
def test_a_running_switch_is_accepted_and_a_change_by_hand_is_not(switch: Path) -> None:
    def find_fault(demand: PlaneDemand, text: str) -> str:
        return find_router_fault(INVENTORY, INVENTORY.leaves[0], demand, read_router(text))

    present = load(switch, compile_leaves(FACTS)["leaf-1.frr.conf"])
    assert [find_fault(demand, present) for demand in (ACME, OTHER)] == ["", ""]
    by_hand = (
        f"router bgp 64601 vrf {ACME.vrf}\n address-family l2vpn evpn\n"
        f"  route-target import 64512:{OTHER.vni}\n"
    )
    joined = load(switch, by_hand)
    assert f"import 64512:{OTHER.vni}`, which was not" in find_fault(ACME, joined)
    run(
        *("vtysh", "--vty_socket", str(switch), "-c", "configure terminal"),
        *("-c", f"router bgp 64601 vrf {ACME.vrf}", "-c", "address-family l2vpn evpn"),
        *("-c", f"no route-target import 64512:{OTHER.vni}"),
    )
    # The file of a pool without the other tenant ends its VRF.
    evidence = {"leaf-1.frr.conf": Evidence("leaf-1.frr.conf", present, "text", "root", 1)}
    alone = make_facts((ACME,), {"node-1": "acme"}, evidence)
    left = load(switch, compile_leaves(alone)["leaf-1.frr.conf"])
    assert find_fault(ACME, left) == ""
    assert list_contexts(left, OTHER.vrf) == []


def list_contexts(text: str, vrf: str) -> list[Statement]:
    """List what a switch has in a VRF."""
    return [one for one in sorted(read_router(text)) if one[1:] and one[0].endswith(f"vrf {vrf}")]


@pytest.mark.skipif(bool(find_missing_fabric()), reason=find_missing_fabric())
def test_opensm_gives_ports_the_keys_of_their_tenant_alone() -> None:
    acme = PlaneDemand("acme", Plane.INFINIBAND, pkey=0x10)
    other = PlaneDemand("other", Plane.INFINIBAND, pkey=0x11)
    with InfinibandFabric(("sm", "rail-0", "rail-1", "rail-2")) as fabric:
        guids = {host: hex(fabric.read_guid(host)) for host in fabric.hosts}
        nodes = [
            {"name": "node-1", "guids": [guids["rail-0"], guids["rail-1"]]},
            {"name": "node-2", "guids": [guids["rail-2"]]},
        ]
        owners = {"node-1": "acme", "node-2": "other"}
        inventory = make_inventory(nodes=nodes)
        facts = make_facts((acme, other), owners, inventory=inventory)
        fabric.run_manager(compile_partitions(facts))
        keys = {host: fabric.read_keys(host) for host in fabric.hosts}
        assert keys["rail-0"] == keys["rail-1"] == {0x7FFF, 0x8010}
        assert keys["rail-2"] == {0x7FFF, 0x8011}
        assert [find_key_fault(acme, keys[f"rail-{n}"]) for n in (0, 1)] == ["", ""]
        assert find_key_fault(acme, keys["rail-2"]) == "lack 0x8010"
        # After the end of its demand the other tenant's port has the default partition alone.
        alone = make_facts((acme,), {"node-1": "acme"}, inventory=inventory)
        fabric.run_manager(compile_partitions(alone))
        assert fabric.read_keys("rail-2") == {0x7FFF}


@pytest.fixture
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpn-"))
    with RealPool(directory / "pool", "2xL40S") as made:
        yield made
    shutil.rmtree(directory)


def test_the_page_gives_a_node_to_a_tenant_and_takes_it_back(
    pool: RealPool, tmp_path: Path
) -> None:
    (page,) = write_files(PAGE, tmp_path)
    node = pool.json("gpus")[0]["node"]
    content = (tmp_path / page).read_text()
    (tmp_path / page).write_text(content.replace("name: node-1", f"name: {node}"))
    pool.do("tenant", "create", "acme")
    for words in commands(PAGES / PAGE):
        if words[1:3] == ["plane-demand", "management"]:
            check_hand_out(pool, tmp_path)
        place = str(tmp_path / "planes")
        hashes = read_hashes(pool, place)
        known = {"node-1": node, page: str(tmp_path / page), "planes": place}
        known["HASH"] = hashes.get(words[2], "")
        known["running-config"] = str(tmp_path / "planes" / "leaf-2.frr.conf")
        pool.do(*(known.get(word, word) for word in words))
    assert pool.json("network", "plane-list") == []
    pool.until_state("guest", "pending")
    assert "not out of them yet" in pool.do("explain", "guest")
    report_files(pool, tmp_path)
    pool.until_state("guest", "running")
    pool.stop_all()


def check_hand_out(pool: RealPool, place: Path) -> None:
    """Check that the node is the tenant's after the reports, and not before."""
    pool.do("submit", "--tenant", "acme", "--gpu", "0.1", "--name", "train", "--", "sleep", "600")
    pool.do("submit", "--gpu", "0.1", "--name", "guest", "--", "sleep", "600")
    assert "is not in force: leaf-1.interfaces was never reported" in pool.do("explain", "train")
    (plane,) = (one for one in pool.json("network", "plane-list") if one["plane"] == "roce")
    assert not plane["in_force"]
    report_files(pool, place)
    pool.until_state("train", "running")
    assert "1 node is for tenants with planes" in pool.do("explain", "guest")
    pool.do("stop", "train", "--yes", "--grace", "0")


def read_hashes(pool: RealPool, place: str) -> dict[str, str]:
    files = json.loads(pool.do("network", "plane-compile", place, "-o", "json"))
    return {file["name"]: file["hash"] for file in files}


def report_files(pool: RealPool, place: Path) -> None:
    for name, digest in read_hashes(pool, str(place / "planes")).items():
        pool.do("network", "plane-report", name, "--hash", digest)


@pytest.mark.skipif(shutil.which("ovn-northd") is None, reason="needs ovn-central")
def test_packets_reach_the_management_network_only_where_the_plane_is_not_in_force() -> None:
    prefix = IPv4Network("172.31.0.0/24")
    peering = PeeringEnd(1, "p-0000000001", True, (IPv4Network("172.31.0.0/28"),))
    back = PeeringEnd(1, "p-0000000001", False, (IPv4Network("10.3.0.0/24"),))
    owner = make_network(4, 1, IPv4Network("172.31.0.0/28"))
    gateway = Gateway(
        IPv4Address("198.18.0.5"), IPv4Network("198.18.0.0/16"), IPv4Address("198.18.0.1")
    )
    peered = make_network(3, 1, IPv4Network("10.3.0.0/24"))
    networks = (
        make_network(1, 2),
        make_network(2, 2),
        replace(peered, peerings=(peering,)),
        replace(owner, peerings=(back,)),
        replace(make_network(5, 1), id=5, gateway=gateway),
    )
    # A BMC, the pool's server, its databases: addresses that an admin lists.
    targets = [str(prefix[n]) for n in (10, 100, 101)]
    reached = list[str]()
    with TracedNetworks(networks) as traced:
        # The trace is no proof where every packet is dropped.
        first, second = networks[0].ports
        assert traced.trace(networks[0], first, str(second.address)) == [name_port(second.key)]
        for network in networks:
            found = [
                port
                for target in targets
                for port in traced.trace(network, network.ports[0], target)
            ]
            is_closed = not list_exposures(network, [prefix], ())
            assert (found == []) is is_closed, (network.name, found)
            reached += [network.name] if found else []
    assert reached == ["net3", "net4", "net5"]
