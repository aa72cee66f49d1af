"""The oracle's figures: ours beside FGD, both of which counted the whole list before its first
claim, as no pool can.

Lists as published and in mixes of our own while a pool fills, and a pool's life with departures.
What a pool gets is measured by the bench `online`. Same nodes, same order, same claims for both.
While a pool fills, the figure is what lies idle (percent of the cluster's compute, mean of the
seeds), so that less is better; the limit is FGD's less 0.3 at 100 and 130 % arrived, FGD's and 0.3
before. The note says how much the fluid bound (`bench.fluid_bound`) would leave idle, `--` without
OR-Tools, and how much less than ours that is. Where claims ask for memory out of proportion to
compute (`bench.memory_mixes`) FGD is as published: it places by compute, and a filter alone knows
memory. With departures it is idle compute and claims of eight cards that were lost (`bench.churn`).
The trace's folder is GPUPOOL_OPENB, else `shared/data/openb` beside the checkout.
"""

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench import churn, fluid_bound, memory_mixes, other_mixes
from bench.figures.paper import data_folder, workloads
from bench.rows import UNKNOWN, Row
from gpupool.scheduling.filtering import native_library
from gpupool.simulation.replay.foreknowledge import ORACLE
from gpupool.simulation.replay.protocol import FIRST_SEED, ProtocolResult, simulate_policy
from gpupool.simulation.replay.protocol import run_protocol as run_protocol
from gpupool.simulation.traces.openb import read_nodes, read_pods

NAME = "placement"
OURS, PEER = "default", "fgd"
SEEDS = range(FIRST_SEED, FIRST_SEED + 10)
FEWER = range(FIRST_SEED, FIRST_SEED + 5)
"""For mixes of our own."""

SATURATED, BEFORE = (100, 130), (85, 90, 95)
GAIN, MEAN_GAIN, LOSS = 0.3, 0.8, 0.3

LIVES = (
    ("default", 0.9),
    ("default", 0.95),
    ("default", 1.05),
    ("multigpu30", 0.95),
    ("multigpu40", 1.05),
    ("gpuspec20", 0.95),
)
"""Lists, and what is asked for on the average in parts of the pool's compute."""
LIFE_SEEDS = (1, 2)

Idle = Mapping[tuple[str, int], float]
"""Percent by policy and arrived percent."""


def run(out: Path) -> list[Row]:
    folder = data_folder()
    with suppress(ImportError):  # without it NumPy decides the same, only later
        from gpupool_native import kernel_path

        native_library.adopt_native_library(kernel_path())
    nodes = folder / "openb_node_list_gpu_node.csv"
    lists = [(name, folder / f"openb_pod_list_{name}.csv") for name in workloads(folder)]
    rows: list[Row] = []
    published = [(name, _filled(name, path, nodes, SEEDS)) for name, path in lists]
    for (name, path), (_, idle) in zip(lists, published, strict=True):
        rows += _rows(name, idle, fluid_bound.idle_pct(nodes, path), f"--seeds {len(SEEDS)}")
    rows += _means("the published lists", [idle for _, idle in published])
    mixes = other_mixes.write(folder, out / "other-mixes")
    others = [
        (f"{name} ({mix})", path, _filled(name, path, nodes, FEWER)) for name, mix, path in mixes
    ]
    for name, path, idle in others:
        rows += _rows(name, idle, fluid_bound.idle_pct(nodes, path), f"--seeds {len(FEWER)}")
    rows += _means("other mixes", [idle for *_, idle in others])
    rows += _by_memory()
    return rows + [row for name, load in LIVES for row in _lives(folder, nodes, name, load)]


def _filled(name: str, path: Path, nodes: Path, seeds: Sequence[int]) -> Idle:
    """Raises LookupError where a level was not reached with every seed."""
    _tell(f"{name} …")
    return _idle(name, run_protocol(path, nodes, (OURS, PEER), seeds, knowledge=ORACLE), len(seeds))


def _idle(name: str, results: Sequence[ProtocolResult], seeds: int) -> Idle:
    found: dict[tuple[str, int], list[float]] = {}
    for result in results:
        for level in result.levels:
            found.setdefault((result.policy, level.arrived_pct), []).append(
                100 - level.allocation_pct
            )
    for arrived in (*BEFORE, *SATURATED):
        if any(len(found.get((policy, arrived), ())) != seeds for policy in (OURS, PEER)):
            raise LookupError(f"{name}: not every seed reached {arrived} % arrived")
    return {key: statistics.fmean(values) for key, values in found.items()}


def _rows(name: str, idle: Idle, bound: Mapping[int, float], seeds: str) -> Iterator[Row]:
    command = f"gpupool simulate {name.split(' ', 1)[0]}.csv --protocol fgd --knowledge oracle {seeds} --policy"
    for arrived in (*BEFORE, *SATURATED):
        ours, peer = idle[OURS, arrived], idle[PEER, arrived]
        least = f"fluid bound {UNKNOWN}"
        if arrived in bound:
            least = f"fluid bound {bound[arrived]:.2f}, {ours - bound[arrived]:.2f} below ours"
        yield Row(
            f"{name}: idle at {arrived} % arrived",
            "%",
            ours,
            f"{command} {OURS}",
            peer=peer,
            peer_command=f"{command} {PEER}",
            limit=peer - GAIN if arrived in SATURATED else peer + LOSS,
            note=f"gain {peer - ours:+.2f}" + (f", {least}" if arrived in SATURATED else ""),
        )


def _means(what: str, lists: Sequence[Idle]) -> Iterator[Row]:
    for arrived in SATURATED:
        ours, peer = (
            statistics.fmean(idle[policy, arrived] for idle in lists) for policy in (OURS, PEER)
        )
        worst = min(idle[PEER, arrived] - idle[OURS, arrived] for idle in lists)
        note = f"gain {peer - ours:+.2f}, least {worst:+.2f}"
        yield Row(
            f"mean of {what}: idle at {arrived} % arrived",
            "%",
            ours,
            NAME,
            peer=peer,
            limit=peer - MEAN_GAIN,
            note=note,
        )


def _by_memory() -> Iterator[Row]:
    """Claims to memory: the filter knows it for both, only ours knows what it is worth."""
    cards = memory_mixes.cluster()
    for number in memory_mixes.SEEDS:
        mix, pods = memory_mixes.made(number, cards)
        _tell(f"memory mix {number} …")
        results = [
            simulate_policy(cards, pods, policy, seed, knowledge=ORACLE)
            for policy in (OURS, PEER)
            for seed in FEWER
        ]
        idle = _idle(f"memory mix {number}", results, len(FEWER))
        for arrived in (*BEFORE, *SATURATED):
            ours, peer = idle[OURS, arrived], idle[PEER, arrived]
            yield Row(
                f"memory mix {number} ({mix}): idle at {arrived} % arrived",
                "%",
                ours,
                NAME,
                peer=peer,
                limit=peer - GAIN,
                note=f"gain {peer - ours:+.2f}",
            )


def _lives(folder: Path, nodes: Path, name: str, load: float) -> Iterator[Row]:
    _tell(f"{name} with departures, load {load:g} …")
    cards, pods = read_nodes(nodes), read_pods(folder / f"openb_pod_list_{name}.csv")
    both = [
        [churn.live(cards, pods, policy, load, seed) for seed in LIFE_SEEDS]
        for policy in (OURS, PEER)
    ]
    ours, peer = (statistics.fmean(100 - life.allocation_pct for life in lives) for lives in both)
    what = f"{name} with departures, load {load:g}"
    yield Row(
        f"{what}: idle", "%", ours, NAME, peer=peer, limit=peer, note=f"gain {peer - ours:+.2f}"
    )
    lost = [sum(life.large - life.large_placed for life in lives) for lives in both]
    came = sum(life.large for life in both[0])
    note = f"of {came}"
    yield Row(
        f"{what}: claims of {churn.LARGE} cards lost",
        "",
        lost[0],
        NAME,
        peer=lost[1],
        limit=lost[1],
        note=note,
    )


def _tell(what: str) -> None:
    print(f"{NAME}: {what}", file=sys.stderr, flush=True)
