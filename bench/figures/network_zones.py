"""One more network among many in zones, beside the same networks in one zone, in turns.

As root, with OVN's packages. Every network has the same prefix and four ports.
"""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.figures.network import (
    add_network,
    await_flows,
    read_compiler_version,
    write_networks,
)
from bench.network_pools import make_network
from bench.rows import Row, median_row
from gpupool.agent.network.daemons import EngineFiles, find_missing_programs, locate_engine
from gpupool.agent.network.zones.zone_files import locate_zone
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from tests.e2e.pool_fixture import RealPool

NAME = "network-zones"
COMMAND = "python -m bench network-zones"
#: Networks of each zone, and in how many zones they are.
ZONE_SIZE = 250
ZONES = (4, 8, 20)
#: The one zone beside them has as many networks as the first of these.
WHOLE_SIZE = ZONE_SIZE * ZONES[0]
TURNS = 5
#: Seconds until traffic passes; and the same beside one zone, at most.
MORE_SECONDS = 0.5
LIMIT_RATIO = 1.0


class Zone:
    """One zone of a pool, with the networks of a bench in its database."""

    def __init__(self, pool: RealPool, number: int) -> None:
        self.files: EngineFiles = locate_engine(
            locate_zone(pool.state_dir / "agent/network", number)
        )
        # Of a pool of its own, so that the pool's reconcilers leave the rows alone.
        self.database = NorthboundDatabase(self.files.remote("northbound"), "bench")

    def fill(self, first: int, count: int) -> None:
        """Write networks, and wait for every flow."""
        write_networks(self.database, [make_network(first + each) for each in range(count)])
        await_flows(self.files)

    def close(self) -> None:
        self.database.close()


def run(out: Path) -> list[Row]:
    missing = find_missing_programs()
    if missing:
        raise SystemExit(f"{NAME}: needs the packages {', '.join(sorted(set(missing.values())))}")
    place = Path(tempfile.mkdtemp(prefix="gpn-"))
    place.chmod(0o755)
    rows = list[Row]()
    try:
        with (
            _start_pool(place / "whole", 1) as whole,
            _start_pool(place / "zones", ZONES[0]) as pool,
            ExitStack() as stack,
        ):
            one = stack.enter_context(closing(Zone(whole, 0)))
            one.fill(1, WHOLE_SIZE)
            zones = list[Zone]()
            for count in ZONES:
                _begin_zones(pool, count)
                for number in range(len(zones), count):
                    zones.append(stack.enter_context(closing(Zone(pool, number))))
                    zones[-1].fill(1 + number * ZONE_SIZE, ZONE_SIZE)
                rows += _compare(one, zones)
    finally:
        shutil.rmtree(place)
    version = read_compiler_version()
    return [replace(row, note="; ".join(filter(None, (row.note, version)))) for row in rows]


@contextmanager
def _start_pool(place: Path, zones: int) -> Iterator[RealPool]:
    with RealPool(place, "1xL40S") as pool:
        pool.do("network", "enable", "--zone-size", "1")
        _begin_zones(pool, zones)
        yield pool


def _begin_zones(pool: RealPool, count: int) -> None:
    """Let a pool have zones: one network of its own in each."""
    present = len(pool.json("network", "list"))
    for number in range(present, count):
        pool.do("network", "create", f"own-{number}", "--cidr", "10.0.0.0/24")

    def are_ready() -> bool:
        found = pool.json("network", "status")["zones"]
        return [one["state"] for one in found] == ["ready"] * count

    pool.until(are_ready, f"{count} zones")


def _compare(one: Zone, zones: list[Zone]) -> list[Row]:
    """Add networks to the last zone and to the one zone in turns; time until a packet passes."""
    size = len(zones) * ZONE_SIZE
    samples: dict[Zone, list[tuple[float, float, float]]] = {one: [], zones[-1]: []}
    for turn in range(TURNS):
        for side, found in samples.items():
            network = make_network(100_000 + TURNS * size + turn)
            found.append(add_network(side.files, side.database, network))
    passed, used, settled = tuple(zip(*samples[zones[-1]], strict=True))
    whole_passed, whole_used, whole_settled = tuple(zip(*samples[one], strict=True))
    peer = f"the same in one zone of {WHOLE_SIZE:,}"
    return [
        median_row(
            f"one more at {size:,} networks in {len(zones)} zones until a packet passes",
            COMMAND,
            passed,
            peer_samples=whole_passed,
            peer_command=peer,
            limit=MORE_SECONDS,
            limit_ratio=LIMIT_RATIO,
            note=f"processor time of the daemons until then: {statistics.median(used):.3f} s beside "
            f"{statistics.median(whole_used):.3f} s",
        ),
        median_row(
            f"... processor time of the zone's daemons until all has settled, {len(zones)} zones",
            COMMAND,
            settled,
            peer_samples=whole_settled,
            peer_command=peer,
            limit_ratio=LIMIT_RATIO,
        ),
    ]
