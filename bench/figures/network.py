"""Networks of tenants on the real OVN: 10, 100 and 1,000 networks written, compared and one more;
OVN programmed by hand beside it; a job in a network beside one without.

As root, with OVN's packages. Every network has the same prefix and four ports.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path

from bench.rows import Row, median_row
from gpupool.agent.network.daemons import EngineFiles, find_missing_programs, locate_engine
from gpupool.network.model import Network, Port, Subnet
from gpupool.network.northbound import compile_network
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.rows import ChangeSet, plan_changes
from tests.e2e.pool_fixture import RealPool

NAME = "network"
COMMAND = "python -m bench network"
SIZES = (10, 100, 1000)
PORTS = 4
#: Networks in one transaction, as the reconciler writes them.
AT_ONCE = 100
TURNS = 15
PREFIX = IPv4Network("10.0.0.0/24")
#: Seconds: 1,000 networks until every flow is in the switch; one more at 100 and at 1,000; an
#: unchanged pool compared; what a network adds to a job.
ALL_SECONDS = 15.0
MORE_SECONDS = {100: 0.3, 1000: 0.5}
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
            by_hand = _write_by_hand(locate_engine(pool.state_dir / "agent/network"), SIZES[1])
        with RealPool(place / "many", "1xL40S") as pool:
            pool.do("network", "enable")
            rows = _measure_sizes(locate_engine(pool.state_dir / "agent/network"), by_hand)
    finally:
        shutil.rmtree(place)
    return [*rows, *jobs]


def _measure_sizes(files: EngineFiles, by_hand: float) -> list[Row]:
    version = subprocess.run(
        ["ovn-northd", "--version"], capture_output=True, text=True, check=True
    )
    note = version.stdout.splitlines()[0]
    # Of a pool of its own, so that the pool's reconciler leaves the rows alone.
    database = NorthboundDatabase(files.remote("northbound"), "bench")
    rows = list[Row]()
    present = 0
    try:
        for size in SIZES:
            networks = [_make_network(number) for number in range(present + 1, size + 1)]
            written = _time(partial(_write, database, networks))
            synced = _time(partial(_sync, files))
            present = size
            everything = [_make_network(number) for number in range(1, size + 1)]
            changed = list[ChangeSet]()
            compared = _time(partial(_compare, database, everything, changed))
            assert not any(changed), "a network that did not change was to be written"
            more = _make_network(100_000 + size)
            one_more = _time(partial(_write, database, [more])) + _time(partial(_sync, files))
            rows += _make_rows(size, written, synced, compared, one_more, note)
            if size == SIZES[1]:
                rows.append(_compare_by_hand(written + synced, by_hand, SIZES[1] - SIZES[0]))
    finally:
        database.close()
    return rows


def _make_rows(
    size: int, written: float, synced: float, compared: float, one_more: float, note: str
) -> list[Row]:
    return [
        Row(
            f"networks up to {size:,}: written, and every flow in the switch",
            "s",
            round(written + synced, 2),
            COMMAND,
            limit=ALL_SECONDS,
            note=f"{written:.2f} s to write; {note}",
        ),
        Row(
            f"one more at {size:,}, every flow in the switch",
            "s",
            round(one_more, 3),
            COMMAND,
            limit=MORE_SECONDS.get(size),
            note=note,
        ),
        Row(
            f"{size:,} unchanged networks compared, 0 writes",
            "s",
            round(compared, 3),
            COMMAND,
            limit=COMPARE_SECONDS,
        ),
    ]


def _compare_by_hand(ours: float, by_hand: float, count: int) -> Row:
    each = by_hand / SIZES[1] * count
    return Row(
        f"{count} networks beside ovn-nbctl",
        "s",
        round(ours, 2),
        COMMAND,
        peer=round(each, 2),
        peer_command="ovn-nbctl, one transaction a network",
        limit_ratio=1.0,
    )


def _make_network(number: int) -> Network:
    subnet = Subnet(number, f"s-{number:010}", "default", PREFIX, PREFIX[1])
    ports = [
        Port(
            number * PORTS + each,
            f"n-{number * PORTS + each:010}",
            subnet.key,
            PREFIX[10 + each],
            f"job-{each}",
        )
        for each in range(PORTS)
    ]
    name = f"net{number}"
    return Network(
        f"v-{number:010}", name, f"{name}.gpupool.internal", 1442, (subnet,), tuple(ports)
    )


def _write(database: NorthboundDatabase, networks: Sequence[Network]) -> None:
    for first in range(0, len(networks), AT_ONCE):
        changes = dict[str, ChangeSet]()
        for network in networks[first : first + AT_ONCE]:
            rows = compile_network(network)
            changes[network.key] = plan_changes(rows, database.observe(network.key))
        database.apply(changes)


def _compare(
    database: NorthboundDatabase, networks: Sequence[Network], into: list[ChangeSet]
) -> None:
    for network in networks:
        into.append(plan_changes(compile_network(network), database.observe(network.key)))


def _sync(files: EngineFiles) -> None:
    command = ("--wait=hv", "--timeout=120", "sync")
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
        _sync(files)

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
