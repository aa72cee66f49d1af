"""Networks of tenants on the real OVN: 10 to 1,000 networks written, compared and one more; 1,000 at
once; OVN programmed by hand beside it; a job in a network beside one without.

As root, with OVN's packages. Every network has the same prefix and four ports.
"""

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.network_pools import PORTS, NetworkRows, make_network
from bench.network_ports import (
    DAEMONS,
    await_packet,
    make_port_work,
    plugged_ends,
    read_processor_seconds,
)
from bench.rows import Row, median_row
from gpupool.agent.network.allocator import choose_allocator
from gpupool.agent.network.daemons import EngineFiles, find_missing_programs, locate_engine
from gpupool.network.model import Network
from gpupool.network.northbound import compile_network, name_port
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.rows import ChangeSet, plan_changes
from tests.e2e.pool_fixture import RealPool

NAME = "network"
COMMAND = "python -m bench network"
SIZES = (10, 100, 200, 1000)
#: The size of the pool beside which OVN is programmed by hand.
BY_HAND_SIZE = 100
#: Networks in one transaction, as the reconciler writes them.
AT_ONCE = 100
TURNS = 15
#: How often one more network is added at each size.
MORE_TURNS = 5
#: Seconds: 1,000 networks until every flow is in the switch; one more until traffic passes, by the
#: networks that are there; an unchanged pool compared; what a network adds to a job.
ALL_SECONDS = 15.0
MORE_SECONDS = {200: 0.3, 1000: 0.5}
COMPARE_SECONDS = 1.0
JOB_SECONDS = 0.05


def run(out: Path) -> list[Row]:
    missing = find_missing_programs()
    if missing:
        raise SystemExit(f"{NAME}: needs the packages {', '.join(sorted(set(missing.values())))}")
    place = Path(tempfile.mkdtemp(prefix="gpn-"))
    place.chmod(0o755)
    try:
        with RealPool(place / "pool", "4xL40S") as pool:
            pool.do("network", "enable")
            jobs = _measure_jobs(pool)
        with RealPool(place / "hand", "1xL40S") as pool:
            pool.do("network", "enable")
            by_hand = _write_by_hand(locate_files(pool), BY_HAND_SIZE)
        with RealPool(place / "whole", "1xL40S") as pool:
            pool.do("network", "enable")
            whole = _measure_whole(locate_files(pool), SIZES[-1])
        with RealPool(place / "many", "1xL40S") as pool:
            pool.do("network", "enable")
            rows = _measure_sizes(locate_files(pool), place / "rows.db", by_hand)
    finally:
        shutil.rmtree(place)
    version = read_compiler_version()
    found = [whole, *rows, *jobs]
    return [replace(row, note="; ".join(filter(None, (row.note, version)))) for row in found]


def read_compiler_version() -> str:
    """Read the version of ovn-northd, and which allocator the engine has."""
    words = ["ovn-northd", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    allocator = "jemalloc" if choose_allocator() else "glibc's allocator"
    return f"{done.stdout.splitlines()[0]}, {allocator}"


def locate_files(pool: RealPool) -> EngineFiles:
    return locate_engine(pool.state_dir / "agent/network")


def _measure_whole(files: EngineFiles, size: int) -> Row:
    """Write many networks into an engine that has none, and wait for every flow."""
    database = NorthboundDatabase(files.remote("northbound"), "bench")
    begin = read_processor_seconds(files, *DAEMONS)
    try:
        networks = [make_network(number) for number in range(1, size + 1)]
        seconds = _time(partial(write_networks, database, networks)) + _time(
            partial(await_flows, files)
        )
    finally:
        database.close()
    used = read_processor_seconds(files, *DAEMONS) - begin
    return Row(
        f"{size:,} networks with {PORTS} ports from nothing, every flow in the switch",
        "s",
        round(seconds, 2),
        COMMAND,
        limit=ALL_SECONDS,
        note=f"processor time of all daemons: {used:.2f} s",
    )


def _measure_sizes(files: EngineFiles, file: Path, by_hand: float) -> list[Row]:
    # Of a pool of its own, so that the pool's reconciler leaves the rows alone.
    database = NorthboundDatabase(files.remote("northbound"), "bench")
    stored = NetworkRows(file)
    rows = list[Row]()
    present = 0
    try:
        for size in SIZES:
            networks = [make_network(number) for number in range(present + 1, size + 1)]
            stored.add(networks)
            written = _time(partial(write_networks, database, networks))
            seconds = written + _time(partial(await_flows, files))
            rows.append(
                Row(
                    f"from {present:,} to {size:,} networks, every flow in the switch",
                    "s",
                    round(seconds, 2),
                    COMMAND,
                    note=f"{written:.2f} s to write",
                )
            )
            if size == BY_HAND_SIZE:
                rows.append(_compare_by_hand(seconds, by_hand, size - present))
            present = size
            rows.append(_measure_unchanged(database, stored, size))
            rows.append(_measure_more(files, database, size))
    finally:
        stored.close()
        database.close()
    return rows


def _measure_unchanged(database: NorthboundDatabase, stored: NetworkRows, size: int) -> Row:
    changed = list[ChangeSet]()

    def compare() -> None:
        for network in stored.read():
            changed.append(plan_changes(compile_network(network), database.observe(network.key)))

    begin = time.process_time()
    compared = _time(compare)
    used = time.process_time() - begin
    assert len(changed) == size, "not all networks were compared"
    assert not any(changed), "a network that did not change was to be written"
    return Row(
        f"{size:,} unchanged networks read and compared, 0 writes",
        "s",
        round(compared, 3),
        COMMAND,
        limit=COMPARE_SECONDS,
        note=f"{used:.3f} s of processor time",
    )


def _measure_more(files: EngineFiles, database: NorthboundDatabase, size: int) -> Row:
    """Add networks whose ports are plugged in already; time until a packet passes in each."""
    passed = list[float]()
    used = list[float]()
    settled = list[float]()
    for turn in range(MORE_TURNS):
        network = make_network(100_000 + MORE_TURNS * size + turn)
        times = add_network(files, database, network)
        for samples, seconds in zip((passed, used, settled), times, strict=True):
            samples.append(seconds)
    return Row(
        f"one more at {size:,} networks until a packet passes",
        "s",
        round(statistics.median(passed), 3),
        COMMAND,
        limit=MORE_SECONDS.get(size),
        samples=tuple(passed),
        note=f"processor time of all daemons: {statistics.median(used):.3f} s until then, "
        f"{statistics.median(settled):.3f} s until all has settled",
    )


def add_network(
    files: EngineFiles, database: NorthboundDatabase, network: Network
) -> tuple[float, float, float]:
    """Add a network; seconds until a packet passes, and of all daemons until then and until the end."""
    ports = {name_port(one.key): make_port_work(network, one) for one in network.ports[:2]}
    with plugged_ends(files, ports) as (source, target):
        begin = read_processor_seconds(files, *DAEMONS)
        started = time.perf_counter()
        write_networks(database, [network])
        await_packet(source, target)
        passed = time.perf_counter() - started
        used = read_processor_seconds(files, *DAEMONS) - begin
        # What the change makes ovn-northd do later is not of the next one.
        await_flows(files)
        return passed, used, read_processor_seconds(files, *DAEMONS) - begin


def _compare_by_hand(ours: float, by_hand: float, count: int) -> Row:
    each = by_hand / BY_HAND_SIZE * count
    return Row(
        f"{count} networks beside ovn-nbctl",
        "s",
        round(ours, 2),
        COMMAND,
        peer=round(each, 2),
        peer_command="ovn-nbctl, one transaction a network",
        limit_ratio=1.0,
    )


def write_networks(database: NorthboundDatabase, networks: Sequence[Network]) -> None:
    """Write networks as the reconciler does."""
    for first in range(0, len(networks), AT_ONCE):
        changes = dict[str, ChangeSet]()
        for network in networks[first : first + AT_ONCE]:
            rows = compile_network(network)
            changes[network.key] = plan_changes(rows, database.observe(network.key))
        database.apply(changes)


def await_flows(files: EngineFiles) -> None:
    """Block until the flows of all that is written are in the switch."""
    command = ("--wait=hv", "--timeout=600", "sync")
    subprocess.run(["ovn-nbctl", f"--db={files.remote('northbound')}", *command], check=True)


def _write_by_hand(files: EngineFiles, size: int) -> float:
    def write() -> None:
        for number in range(size):
            router, switch = f"r{number}", f"s{number}"
            words = ["lr-add", router, "--", "ls-add", switch]
            mac = f"0e:00:00:00:{number >> 8:02x}:{number & 255:02x}"
            words += ["--", "lrp-add", router, f"rp{number}", mac, "10.0.0.1/24"]
            words += ["--", "lsp-add", switch, f"sp{number}"]
            words += ["--", "lsp-set-type", f"sp{number}", "router"]
            words += ["--", "lsp-set-addresses", f"sp{number}", "router"]
            words += ["--", "lsp-set-options", f"sp{number}", f"router-port=rp{number}"]
            for each in range(PORTS):
                port = f"p{number}-{each}"
                address = (
                    f"0a:00:00:{each:02x}:{number >> 8:02x}:{number & 255:02x} 10.0.0.{10 + each}"
                )
                words += ["--", "lsp-add", switch, port]
                words += ["--", "lsp-set-addresses", port, address]
                words += ["--", "lsp-set-port-security", port, address]
            subprocess.run(["ovn-nbctl", f"--db={files.remote('northbound')}", *words], check=True)
        await_flows(files)

    return _time(write)


def _measure_jobs(pool: RealPool) -> list[Row]:
    pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
    plain = list[float]()
    joined = list[float]()
    for _turn in range(TURNS):
        for samples, words in ((plain, ()), (joined, ("--network", "lab"))):
            command = ("run", "-q", "--gpu", "0.3", *words, "--", "true")
            samples.append(_time(partial(pool.do, *command)))
    apart = sorted(left - right for left, right in zip(joined, plain, strict=True))
    return [
        median_row(
            "a job in a network, from start to end",
            COMMAND,
            joined,
            peer_samples=plain,
            peer_command="gpupool run without --network",
        ),
        Row(
            "what a network adds to a job, median of turns",
            "s",
            round(apart[len(apart) // 2], 3),
            COMMAND,
            limit=JOB_SECONDS,
            samples=tuple(apart),
        ),
    ]


def _time(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin
