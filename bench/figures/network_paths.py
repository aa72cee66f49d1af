"""Packets in a network of a tenant on the real OVN: throughput and round trips, beside networks of
OVN that were made by hand in the same switch, and beside a bare cable.

As root, with OVN's packages. The three take turns, so that a busy machine slows all of them; what
a second of the switch's processor time forwards is nearly the same on a busy machine.
"""

import contextlib
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import Path

from bench.figures.network import read_compiler_version
from bench.network_pools import make_network
from bench.network_ports import (
    make_port_work,
    measure_round_trips,
    plugged_ends,
    read_processor_seconds,
)
from bench.rows import Row
from gpupool.agent.network.daemons import EngineFiles, find_missing_programs, locate_engine
from gpupool.agent.network.namespaces import name_interface
from gpupool.agent.network.verification.traffic import TrafficEnd, TrafficPlan, measure_path
from gpupool.network.northbound import compile_network, name_port
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.rows import plan_changes
from gpupool.wire.network.networks import PortWork
from tests.e2e.pool_fixture import RealPool

NAME = "network-paths"
COMMAND = "python -m bench network-paths"
TURNS = 24
PINGS = 30
#: Characters of the id of a port.
PORT_LENGTH = 12
#: Part of the throughput of plain OVN that a network has at least.
LEAST = 0.95
PLAN = TrafficPlan("tcp", 0, seconds=0.5, start_seconds=0.2)
VPC = "a network"
BY_HAND = "plain OVN, the same switch"
CABLE = "a bare veth"


def run(out: Path) -> list[Row]:
    missing = find_missing_programs()
    if missing:
        raise SystemExit(f"{NAME}: needs the packages {', '.join(sorted(set(missing.values())))}")
    place = Path(tempfile.mkdtemp(prefix="gpn-"))
    place.chmod(0o755)
    try:
        with RealPool(place / "pool", "1xL40S") as pool:
            pool.do("network", "enable")
            files = locate_engine(pool.state_dir / "agent/network")
            with contextlib.ExitStack() as stack:
                paths = {
                    VPC: stack.enter_context(_make_vpc(files)),
                    BY_HAND: stack.enter_context(_make_by_hand(files)),
                    CABLE: stack.enter_context(_make_cable(place.name)),
                }
                return _measure(files, paths)
    finally:
        shutil.rmtree(place)


def _measure(files: EngineFiles, paths: Mapping[str, list[TrafficEnd]]) -> list[Row]:
    rates: dict[str, list[float]] = {name: [] for name in paths}
    forwarded: dict[str, list[float]] = {name: [] for name in paths}
    trips: dict[str, list[float]] = {name: [] for name in paths}
    for turn in range(TURNS):
        # Every second turn backwards, so that no path always follows the same one.
        for name, (source, target) in list(paths.items())[:: (-1) ** turn]:
            begin = read_processor_seconds(files, "ovs-vswitchd")
            rate = measure_path(source, target, PLAN).received_kbit / 1000
            used = read_processor_seconds(files, "ovs-vswitchd") - begin
            rates[name].append(rate)
            if name != CABLE:
                forwarded[name].append(rate * (PLAN.start_seconds + PLAN.seconds) / used)
            trips[name].append(statistics.median(measure_round_trips(source, target, PINGS)))
    rows = [_compare_actions(files, paths)]
    for peer in (BY_HAND, CABLE):
        is_judged = peer == BY_HAND
        least = LEAST if is_judged else None
        figure = f"TCP through a network beside {peer}"
        rows.append(_make_row(figure, "Mbit/s", rates, peer, least_ratio=least))
        longest = round(1 / LEAST, 3) if is_judged else None
        figure = f"a round trip through a network beside {peer}"
        rows.append(_make_row(figure, "ms", trips, peer, limit_ratio=longest))
    figure = "TCP that a second of the switch's processor time forwards"
    rows.append(_make_row(figure, "Mbit", forwarded, BY_HAND, least_ratio=LEAST))
    return rows


def _compare_actions(files: EngineFiles, paths: Mapping[str, list[TrafficEnd]]) -> Row:
    """Compare what the datapath does with a packet: no figure of a busy machine."""
    command = ["ovs-appctl", "-t", str(files.run / "vswitchd.ctl")]
    command += ["dpctl/dump-flows", "--names"]
    flows = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {name: _list_actions(flows, paths[name][0]) for name in (VPC, BY_HAND)}
    return Row(
        "actions of the datapath on a packet of TCP",
        "",
        len(found[VPC]),
        COMMAND,
        peer=len(found[BY_HAND]),
        peer_command=BY_HAND,
        limit_ratio=1.0,
        note=f"{', '.join(found[VPC])} beside {', '.join(found[BY_HAND])}",
    )


def _list_actions(flows: str, source: TrafficEnd) -> list[str]:
    """List the actions on what a namespace sends by TCP or, where flows are wide, by IPv4."""
    interface = name_interface(source.namespace.name[-PORT_LENGTH:])
    for line in flows.splitlines():
        if f"in_port({interface})" in line and "eth_type(0x0800)" in line:
            return line.rpartition("actions:")[2].split(",")
    raise LookupError(f"the datapath has no flow of {interface}")


def _make_row(
    figure: str, unit: str, samples: Mapping[str, list[float]], peer: str, **limits: float | None
) -> Row:
    return Row(
        figure,
        unit,
        round(statistics.median(samples[VPC]), 3),
        COMMAND,
        peer=round(statistics.median(samples[peer]), 3),
        peer_command=peer,
        samples=tuple(samples[VPC]),
        peer_samples=tuple(samples[peer]),
        note=read_compiler_version(),
        **limits,
    )


@contextlib.contextmanager
def _make_vpc(files: EngineFiles) -> Iterator[list[TrafficEnd]]:
    network = make_network(1)
    database = NorthboundDatabase(files.remote("northbound"), "bench")
    try:
        rows = compile_network(network)
        database.apply({network.key: plan_changes(rows, database.observe(network.key))})
    finally:
        database.close()
    ports = {name_port(port.key): make_port_work(network, port) for port in network.ports[:2]}
    with plugged_ends(files, ports) as ends:
        yield ends


@contextlib.contextmanager
def _make_by_hand(files: EngineFiles) -> Iterator[list[TrafficEnd]]:
    network = make_network(2)
    words = ["ls-add", "hand"]
    ports = dict[str, PortWork]()
    for number, port in enumerate(network.ports[:2]):
        name = f"hand-{number}"
        words += ["--", "lsp-add", "hand", name]
        words += ["--", "lsp-set-addresses", name, f"{port.mac} {port.address}"]
        words += ["--", "lsp-set-port-security", name, f"{port.mac} {port.address}"]
        ports[name] = make_port_work(network, port)
    subprocess.run(["ovn-nbctl", f"--db={files.remote('northbound')}", *words], check=True)
    with plugged_ends(files, ports) as ends:
        yield ends


@contextlib.contextmanager
def _make_cable(mark: str) -> Iterator[list[TrafficEnd]]:
    names = [f"{mark}-{end}" for end in "ab"]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        first, second = names
        peer = ["peer", "name", "eth0", "netns", second]
        cable = ["ip", "-n", first, "link", "add", "eth0", "type", "veth", *peer]
        subprocess.run(cable, check=True)
        for number, name in enumerate(names, 1):
            address = f"10.0.0.{number}/24"
            subprocess.run(["ip", "-n", name, "addr", "add", address, "dev", "eth0"], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "eth0", "up"], check=True)
        yield [
            TrafficEnd(Path("/run/netns") / name, IPv4Address(f"10.0.0.{number}"))
            for number, name in enumerate(names, 1)
        ]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)
