"""Power and price of what policies place, beside FGD in the same run: while a pool fills, and with
departures.

Same nodes, same claims, same order. Watts and prices are means of the seeds when 40, 50, 60 and 80
percent of the compute have been asked for, and over time with departures; what is allocated at 100
percent is what saving costs. Ours learn as they go, as in a pool; FGD knows the whole list, as
published. The published work (PWR+FGD, Lettich et al., CCGrid 2025) saves 10 to 20 % of FGD's power
at 40 to 60 %: the limit there. The trace's folder is GPUPOOL_OPENB, else `shared/data/openb` beside
the checkout.
"""

import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bench.figures.paper import data_folder
from bench.power_life import Drawn, filling, living, with_prices
from bench.rows import Row
from gpupool.scheduling.filtering import native_library
from gpupool.simulation.replay.foreknowledge import ONLINE, ORACLE
from gpupool.simulation.replay.parallel import TellProgress, run_all
from gpupool.simulation.traces.openb import read_nodes, read_pods

NAME = "power"
PEER = "fgd"
POLICIES = ("default", "power", "fgd+power", "default+power", "fgd+price", "default+price")
LISTS = ("default", "multigpu30", "gpuspec20")
SEEDS = (42,)
LEVELS = (40, 50, 60, 80, 100)
LOADS = (0.5,)
LIVED = ("default", "default+power", "default+price")
"""Policies that are looked at with departures too."""
LIFE_SEED = 1

SAVING = 0.90
"""Of FGD's power, for the mean of the lists between 40 and 60 percent."""

_Case = tuple[str, str, str, int, float]
"""Folder, list, policy, seed, and with departures the load (0: the pool fills)."""


def run(out: Path) -> list[Row]:
    folder = str(data_folder())
    with suppress(ImportError):  # without it NumPy decides the same, only later
        from gpupool_native import kernel_path

        native_library.adopt_native_library(kernel_path())
    names = (PEER, *POLICIES)
    cases = [
        (folder, workload, name, seed, 0.0)
        for workload in LISTS
        for name in names
        for seed in SEEDS
    ]
    cases += [
        (folder, LISTS[0], name, LIFE_SEED, load) for load in LOADS for name in (PEER, *LIVED)
    ]
    results = run_all(_drawn, cases, lambda part: _tell(f"{100 * part:.0f} %"))
    found = dict(zip(cases, results, strict=True))
    rows: list[Row] = []
    for name in POLICIES:
        for level in LEVELS:
            lists = [
                [_mean(found, folder, workload, one, level) for one in (name, PEER)]
                for workload in LISTS
            ]
            rows += _rows(name, f"{level} % asked for", lists, level)
        for load in LOADS if name in LIVED else ():
            both = [found[folder, LISTS[0], one, LIFE_SEED, load][0] for one in (name, PEER)]
            rows += _rows(name, f"with departures, load {load:g}", [both], None)
    return rows


def _drawn(case: _Case, _tell_part: TellProgress) -> dict[int, Drawn]:
    folder, workload, policy, seed, load = case
    cards = with_prices(read_nodes(Path(folder) / "openb_node_list_gpu_node.csv"))
    pods = read_pods(Path(folder) / f"openb_pod_list_{workload}.csv")
    knowledge = ORACLE if policy == PEER else ONLINE
    if load:
        return {0: living(cards, pods, policy, load, seed, knowledge)}
    return filling(cards, pods, policy, seed, LEVELS, knowledge)


def _mean(
    found: dict[_Case, dict[int, Drawn]], folder: str, workload: str, policy: str, level: int
) -> Drawn:
    seen = [found[folder, workload, policy, seed, 0.0][level] for seed in SEEDS]
    return Drawn(
        statistics.fmean(one.allocation_pct for one in seen),
        statistics.fmean(one.watts for one in seen),
        statistics.fmean(one.price_per_hour for one in seen),
    )


def _rows(
    name: str, when: str, lists: Sequence[Sequence[Drawn]], level: int | None
) -> Iterator[Row]:
    """Means over the lists; of FGD beside them."""
    ours, peer = zip(*lists, strict=True)
    figures = (
        ("power", "kW", [one.watts / 1000 for one in ours], [one.watts / 1000 for one in peer]),
        (
            "price of nodes in use",
            "/h",
            [one.price_per_hour for one in ours],
            [one.price_per_hour for one in peer],
        ),
        (
            "allocated",
            "%",
            [one.allocation_pct for one in ours],
            [one.allocation_pct for one in peer],
        ),
    )
    for what, unit, mine, theirs in figures:
        limited = what == "power" and name.endswith("power") and level in (40, 50, 60)
        apart = [100 * (a / b - 1) for a, b in zip(mine, theirs, strict=True)]
        mean, of_peer = statistics.fmean(mine), statistics.fmean(theirs)
        note = f"{100 * (mean / of_peer - 1):+.1f} %"
        if len(apart) > 1:
            note += f", by list {min(apart):+.1f} to {max(apart):+.1f}"
        yield Row(
            f"{name}: {what}, {when}",
            unit,
            mean,
            NAME,
            peer=of_peer,
            peer_command=PEER,
            limit_ratio=SAVING if limited else None,
            note=note,
        )


def _tell(what: str) -> None:
    print(f"\r{NAME}: {what}", end="", file=sys.stderr, flush=True)
