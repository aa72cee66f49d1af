"""Placement as a pool runs it: nothing known at the start, learnt from claims that come and end;
rivals beside it.

Ours learns online (`scheduling.scoring.demand_knowledge`); FGD beside it has counted the whole
list, as in its paper, and so has ours as an oracle, in the notes. Figures are percent of the pool's
compute that lies idle, less is better: means over the seeds at 95, 100 and 130 % arrived, or over a
life with departures. Limits: on the mean of the published lists FGD's less 0.8, on each of them
FGD's and 0.05; elsewhere the best rival's and 0.2, for families of sizes and 0.1; claims of eight
cards that a life lost no more than FGD lost. Small pools are beside rivals that know as little as
they do: FGD is in the notes. BENCH_ONLINE_SEEDS (2) says how many seeds, BENCH_ONLINE_FAMILIES
which families of `lists mixes memory shifting sizes small departures`. The trace's folder is
GPUPOOL_OPENB, else `shared/data/openb` beside the checkout.
"""

import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench import memory_mixes, other_mixes, size_families, small_pools
from bench.figures.paper import data_folder, workloads
from bench.online_runs import FAMILIES, LEVELS, Figures, Run
from bench.online_runs import run as run_one
from bench.rows import Row
from gpupool.scheduling.filtering import native_library
from gpupool.simulation.replay.foreknowledge import ONLINE, ORACLE
from gpupool.simulation.replay.parallel import run_all
from gpupool.simulation.replay.protocol import FIRST_SEED

NAME = "online"
OURS, PAPERS = "default", "fgd"
RIVALS = ("best-fit", "gpu-packing", "gpu-clustering", "binpack", "spread")
"""Beside FGD; none of them expects anything."""

SEEDS = 2
MEAN_GAIN, LOSS, BEHIND_BEST, BEHIND_BEST_OF_SIZES = 0.8, 0.05, 0.2, 0.1

SHIFTS = ("multigpu40 after gpushare60", "gpuspec25 after default", "default after gpuspec25")
LIVES = (
    *(
        "default at 0.9",
        "default at 0.95",
        "default at 1.05",
        "multigpu40 at 0.95",
        "multigpu40 at 1.05",
    ),
    *("gpuspec25 at 0.95", "gpuspec25 at 1.05", "gpushare60 at 0.95", "gpushare60 at 1.05"),
)

Cases = Mapping[tuple[str, str], str]
"""What to call a case, by family and name."""

Found = Mapping[tuple[str, str, str, str], Figures]
"""Means over the seeds, by family, name, policy and knowledge."""


def run(out: Path) -> list[Row]:
    with suppress(ImportError):  # without it NumPy decides the same, only later
        from gpupool_native import kernel_path

        native_library.adopt_native_library(kernel_path())
    folder, number = data_folder(), int(os.environ.get("BENCH_ONLINE_SEEDS") or SEEDS)
    wanted = (os.environ.get("BENCH_ONLINE_FAMILIES") or " ".join(FAMILIES)).split()
    unknown = sorted(set(wanted) - set(FAMILIES))
    if unknown:
        raise LookupError(
            f"BENCH_ONLINE_FAMILIES: {', '.join(unknown)}; there are {', '.join(FAMILIES)}"
        )
    cases = {case: called for case, called in _cases(folder, out).items() if case[0] in wanted}
    measured = _measured(folder, cases, range(FIRST_SEED, FIRST_SEED + number))
    (out / "online-runs.json").write_text(json.dumps(_record(cases, measured), indent=1) + "\n")
    found = _means(measured)
    command = f"BENCH_ONLINE_SEEDS={number} python -m bench {NAME}"
    rows = [row for case, called in cases.items() for row in _rows(case, called, found, command)]
    return rows + list(_mean_of_lists(cases, found, command))


def _cases(folder: Path, out: Path) -> Cases:
    made = {("lists", name): name for name in workloads(folder)}
    made |= {
        ("mixes", str(path)): name
        for name, _, path in other_mixes.write(folder, out / "other-mixes")
    }
    made |= {("memory", str(number)): f"memory mix {number}" for number in memory_mixes.SEEDS}
    made |= {("shifting", name): name for name in SHIFTS}
    made |= {("sizes", family.name): family.name for family in size_families.families()}
    made |= {("small", name): f"{small_pools.POOLS} pools of {name}" for name in small_pools.CASES}
    return made | {
        ("departures", name): f"{name} of the pool's compute, with departures" for name in LIVES
    }


def _measured(folder: Path, cases: Cases, seeds: Sequence[int]) -> list[tuple[Run, Figures]]:
    """Every case with every policy: ours online and as an oracle, FGD as an oracle, the others know
    nothing."""
    policies = [
        (OURS, ONLINE),
        (OURS, ORACLE),
        (PAPERS, ORACLE),
        *((rival, ORACLE) for rival in RIVALS),
    ]
    runs = [
        Run(folder, *case, *policy, seed) for case in cases for policy in policies for seed in seeds
    ]
    done = [0]

    def tell(_result: object) -> None:
        done[0] += 1
        print(f"\r{NAME}: {done[0]} of {len(runs)} runs", end="", file=sys.stderr, flush=True)

    results = run_all(run_one, runs, lambda _part: None, None, tell)
    print(file=sys.stderr)
    return results


def _record(cases: Cases, results: Sequence[tuple[Run, Figures]]) -> list[dict[str, object]]:
    """Every run, for who doubts a mean."""
    return [
        {
            "family": one.family,
            "case": cases[one.family, one.name],
            "policy": one.policy,
            "knowledge": one.knowledge,
            "seed": one.seed,
            "idle_pct": figures,
        }
        for one, figures in results
    ]


def _means(results: Sequence[tuple[Run, Figures]]) -> Found:
    of: dict[tuple[str, str, str, str], list[Figures]] = defaultdict(list)
    for one, figures in results:
        of[one.family, one.name, one.policy, one.knowledge].append(figures)
    return {key: _mean(all_) for key, all_ in of.items()}


def _mean(several: Sequence[Figures]) -> Figures:
    return {level: statistics.fmean(figures[level] for figures in several) for level in several[0]}


def _rows(case: tuple[str, str], called: str, found: Found, command: str) -> Iterator[Row]:
    family = case[0]
    ours, oracle, papers = (
        found[*case, *who] for who in ((OURS, ONLINE), (OURS, ORACLE), (PAPERS, ORACLE))
    )
    rivals = {rival: found[*case, rival, ORACLE] for rival in RIVALS}
    if family != "small":
        rivals = {PAPERS: papers} | rivals
    for level in [level for level in ours if level not in ("lost", "of")]:
        best = min(rivals, key=lambda rival: rivals[rival][level])
        others = ", ".join(f"{rival} {figures[level]:.2f}" for rival, figures in rivals.items())
        yield Row(
            f"{called}: idle" + ("" if level == "life" else f" at {level} % arrived"),
            "%",
            ours[level],
            command,
            peer=papers[level] if family == "lists" else rivals[best][level],
            peer_command=PAPERS if family == "lists" else best,
            limit=_limit(family, level, papers[level], rivals[best][level]),
            note=f"gain over fgd {papers[level] - ours[level]:+.2f}; ours as an oracle {oracle[level]:.2f}; {others}",
        )
    if ours.get("of"):
        lost = f"{called}: claims of eight cards lost"
        note = f"mean of {ours['of']:.0f}; ours as an oracle {oracle['lost']:.1f}"
        yield Row(
            lost, "", ours["lost"], command, papers["lost"], PAPERS, limit=papers["lost"], note=note
        )


def _limit(family: str, level: str, papers: float, best: float) -> float | None:
    """At 95 % arrived hardly anything is lost yet: a figure to look at."""
    if level == "95":
        return None
    if family == "lists":
        return papers + LOSS
    return best + (BEHIND_BEST_OF_SIZES if family == "sizes" else BEHIND_BEST)


def _mean_of_lists(cases: Cases, found: Found, command: str) -> Iterator[Row]:
    lists = [case for case in cases if case[0] == "lists"]
    for level in map(str, LEVELS[1:] if lists else ()):
        columns = [(OURS, ONLINE), (OURS, ORACLE), (PAPERS, ORACLE)]
        ours, oracle, papers = (
            statistics.fmean(found[*case, *who][level] for case in lists) for who in columns
        )
        note = f"gain {papers - ours:+.2f}; as an oracle {papers - oracle:+.2f}"
        what = f"mean of the published lists: idle at {level} % arrived"
        yield Row(what, "%", ours, command, papers, PAPERS, limit=papers - MEAN_GAIN, note=note)
