"""The table of "Beware of Fragmentation" (ATC 2023): ours beside the authors' results, every list
and every policy.

The lists and the published results (means and standard deviations of ten seeds) are read from a
folder: GPUPOOL_OPENB, else `shared/data/openb` beside the checkout. A list without a published
result, a level that was not reached or a folder without lists breaks the bench: nothing is left out
in silence.
"""

import csv
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from bench.rows import Row
from gpupool.scheduling.filtering import native_library
from gpupool.simulation.replay.demand_levels import DemandLevel
from gpupool.simulation.replay.foreknowledge import ORACLE
from gpupool.simulation.replay.protocol import FIRST_SEED
from gpupool.simulation.replay.protocol import run_protocol as run_protocol

NAME = "paper"
SEEDS = range(FIRST_SEED, FIRST_SEED + 10)
POLICIES = {
    "random": "Random",
    "dot-product": "DotProd",
    "gpu-clustering": "GpuClustering",
    "gpu-packing": "GpuPacking",
    "best-fit": "BestFit",
    "fgd": "FGD",
}
"""Our names and the authors'."""

ARRIVED = (100, 130)
AMOUNT_AT = tuple(range(20, 131, 5))
RATIO_AT = (60, 80, 85, 90)
MAIN_LIST = "default"

_SLACK = 0.3
_FGD_SLACK = 0.25
_PREFIX = "openb_pod_list_"
_COLUMNS = {
    "allocation": ("allocation_pct", "alloc_pct_mean", "alloc_pct_std"),
    "fragment": ("fragment_pct", "frag_pct_mean", "frag_pct_std"),
    "fragment ratio": ("fragment_ratio_pct", "frag_ratio_pct_mean", "frag_ratio_pct_std"),
}

Published = Mapping[tuple[str, str, int], Mapping[str, str]]
"""Lines of the summary by list, the authors' name of the policy, and arrived percent."""

Ours = Mapping[tuple[str, int], list[DemandLevel]]
"""Levels of all seeds by policy and arrived percent."""


@dataclass(frozen=True)
class Cell:
    """One figure to compare; `slack` is given where the deviation of the seeds plays no part."""

    workload: str
    policy: str
    what: str
    arrived: int
    slack: float | None = None


def run(out: Path) -> list[Row]:
    folder = data_folder()
    published = _published(folder / "paper_expected_summary.csv")
    with suppress(ImportError):  # without it NumPy decides the same, only later
        from gpupool_native import kernel_path

        native_library.adopt_native_library(kernel_path())
    rows: list[Row] = []
    for workload in workloads(folder):
        ours = _ours(folder, workload)
        rows += [_row(cell, ours, published) for cell in cells(workload)]
    return rows


def data_folder() -> Path:
    """Where the trace lies. Raises FileNotFoundError with what to do."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data" / "openb"
    folder = Path(os.environ.get("GPUPOOL_OPENB", beside))
    if not folder.is_dir():
        raise FileNotFoundError(
            f"the openb trace is not in {folder}; set GPUPOOL_OPENB to its folder"
        )
    return folder


def workloads(folder: Path) -> list[str]:
    """The lists of the folder, the main one first. Raises FileNotFoundError where there is none."""
    found = sorted(path.stem.removeprefix(_PREFIX) for path in folder.glob(f"{_PREFIX}*.csv"))
    if MAIN_LIST not in found:
        raise FileNotFoundError(
            f"{folder} has no {_PREFIX}{MAIN_LIST}.csv; it has {len(found)} other lists"
        )
    return [MAIN_LIST, *(name for name in found if name != MAIN_LIST)]


def cells(workload: str) -> Iterator[Cell]:
    """Allocation of every policy; for FGD on the main list fragments as well."""
    for policy in POLICIES:
        for arrived in ARRIVED:
            strict = (workload, policy, arrived) == (MAIN_LIST, "fgd", 130)
            yield Cell(workload, policy, "allocation", arrived, _FGD_SLACK if strict else None)
    if workload == MAIN_LIST:
        yield from (Cell(workload, "fgd", "fragment", arrived, _SLACK) for arrived in AMOUNT_AT)
        yield from (Cell(workload, "fgd", "fragment ratio", arrived) for arrived in RATIO_AT)


def _published(path: Path) -> Published:
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (row["workload"], row["policy"], int(row["arrived_pct"])): row
            for row in csv.DictReader(file)
        }


def _ours(folder: Path, workload: str) -> Ours:
    def told(done: int, of: int, _result: object) -> None:
        print(
            f"\r{NAME}: {workload} {done} of {of}",
            end="" if done < of else "\n",
            file=sys.stderr,
            flush=True,
        )

    lists = folder / f"{_PREFIX}{workload}.csv", folder / "openb_node_list_gpu_node.csv"
    found: dict[tuple[str, int], list[DemandLevel]] = {}
    for result in run_protocol(*lists, tuple(POLICIES), SEEDS, told, knowledge=ORACLE):
        for level in result.levels:
            found.setdefault((result.policy, level.arrived_pct), []).append(level)
    return found


def _row(cell: Cell, ours: Ours, published: Published) -> Row:
    """Raises LookupError where either side has no such figure."""
    name, mean, deviation = _COLUMNS[cell.what]
    theirs = published.get((cell.workload, POLICIES[cell.policy], cell.arrived))
    values = [getattr(level, name) for level in ours.get((cell.policy, cell.arrived), [])]
    if theirs is None or len(values) != len(SEEDS) or None in values:
        lacking = "published result" if theirs is None else f"result of ours for {len(SEEDS)} seeds"
        raise LookupError(
            f"no {lacking}: {cell.workload}, {cell.policy}, {cell.what} at {cell.arrived} % arrived"
        )
    return Row(
        f"{cell.workload}: {cell.policy}, {cell.what} at {cell.arrived} % arrived",
        "%",
        statistics.fmean(values),
        f"gpupool simulate {_PREFIX}{cell.workload}.csv --protocol fgd --policy {cell.policy} --seeds {len(SEEDS)}",
        peer=float(theirs[mean]),
        peer_command="the authors' published results",
        limit_apart=_SLACK + 3 * float(theirs[deviation]) * sqrt(2 / 10)
        if cell.slack is None
        else cell.slack,
        samples=_samples(values),
    )


def _samples(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(value, 4) for value in values)
