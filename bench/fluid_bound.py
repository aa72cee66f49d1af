"""How little a cluster could leave idle if claims were a fluid: a linear program, for policies that
turn nobody away.

Claims of a class may be split over nodes of every kind that could take them; processors, memory and
cards of a kind are one vessel. Only shares are packed exactly: what they leave of a card is found
by arcs from 0 to the card's end (in hundredths), each as long as a share, in descending order of
sizes. First the largest part of all classes alike is found that fits, then as much more as fits of
whatever else arrives. That is a bound for whoever places every claim that fits, whatever is moved
afterwards; nodes as such and the order of arrival play no part, so no policy need reach it. Where a
class fits nowhere the first part is 0. OR-Tools solves it (extra `opt`); without it nothing is
known.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARRIVED = (100, 130)
_GRAINS = 100
"""Of a card."""
_WHOLE = 1000
_ALMOST = 0.99999


@dataclass(frozen=True)
class Class:
    cpu: int
    count: int
    milli: int
    models: tuple[str, ...]

    @property
    def asked(self) -> int:
        return self.count * self.milli


@dataclass(frozen=True)
class Kind:
    cpu: int
    memory: int
    cards: int
    model: str

    def takes(self, one: Class, memory: float) -> bool:
        named = not one.count or not one.models or self.model in one.models
        return named and one.cpu <= self.cpu and one.count <= self.cards and memory <= self.memory


@dataclass
class Lists:
    """Kinds of nodes by number, classes by number, and each class's mean memory."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    classes: Counter[Class] = field(default_factory=Counter)
    memory: dict[Class, float] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        return _WHOLE * sum(kind.cards * number for kind, number in self.kinds.items())

    @property
    def demand(self) -> int:
        return sum(one.asked * number for one, number in self.classes.items())


def idle_pct(nodes: Path, pods: Path) -> Mapping[int, float]:
    """Least idle percent by arrived percent; empty where it cannot be had."""
    try:
        from ortools.linear_solver import pywraplp
    except ImportError:
        return {}
    lists = _read(nodes, pods)
    found = {
        arrived: _solve(pywraplp, lists, arrived / 100 * lists.capacity / lists.demand)
        for arrived in ARRIVED
    }
    return {
        arrived: 100 - 100 * used / lists.capacity
        for arrived, used in found.items()
        if used is not None
    }


def _solve(solvers: Any, lists: Lists, times: float) -> float | None:
    """Milli-devices in use when all of the list has come so many times."""
    solver = solvers.Solver.CreateSolver("GLOP")
    placed: dict[Class, list[Any]] = {one: [] for one in lists.classes}
    for kind, number in lists.kinds.items():
        _fill(solver, lists, kind, number, placed)
    alike = solver.NumVar(0, times, "")
    for one, number in lists.classes.items():
        total = solver.Sum(placed[one])
        solver.Add(total <= times * number)
        solver.Add(total >= alike * number)
    solver.Maximize(alike)
    if solver.Solve() != solver.OPTIMAL:
        return None
    alike.SetLb(alike.solution_value() * _ALMOST)
    solver.Maximize(
        solver.Sum([one.asked * part for one, parts in placed.items() for part in parts])
    )
    return float(solver.Objective().Value()) if solver.Solve() == solver.OPTIMAL else None


def _fill(
    solver: Any, lists: Lists, kind: Kind, number: int, placed: dict[Class, list[Any]]
) -> None:
    """What nodes of one kind may hold together."""
    here = {
        one: solver.NumVar(0, solver.infinity(), "")
        for one in lists.classes
        if kind.takes(one, lists.memory[one])
    }
    for one, part in here.items():
        placed[one].append(part)
    solver.Add(solver.Sum([one.cpu * part for one, part in here.items()]) <= kind.cpu * number)
    solver.Add(
        solver.Sum([lists.memory[one] * part for one, part in here.items()]) <= kind.memory * number
    )
    whole = [one.count * part for one, part in here.items() if one.count and one.milli == _WHOLE]
    shares: dict[int, list[Any]] = defaultdict(list)
    for one, part in here.items():
        if one.count and one.milli < _WHOLE:
            shares[one.milli].append(one.count * part)
    opened = _packed(solver, shares)
    solver.Add(solver.Sum(whole + opened) <= kind.cards * number)


def _packed(solver: Any, shares: Mapping[int, list[Any]]) -> list[Any]:
    """Arcs over a card's length; those that begin at 0 open a card, and are returned."""
    into: dict[int, list[Any]] = defaultdict(list)
    out: dict[int, list[Any]] = defaultdict(list)
    reached = {0}
    for milli in sorted(shares, reverse=True):
        arcs = []
        for at, end in _arcs(reached, -(-milli * _GRAINS // _WHOLE)):
            arc = solver.NumVar(0, solver.infinity(), "")
            arcs.append(arc)
            out[at].append(arc)
            into[end].append(arc)
        solver.Add(solver.Sum(shares[milli]) == solver.Sum(arcs))
    for at in into:
        solver.Add(solver.Sum(out[at]) <= solver.Sum(into[at]))
    return out[0]


def _arcs(reached: set[int], length: int) -> Iterator[tuple[int, int]]:
    """Where a share of that length may lie behind longer ones and others like it; what it reaches
    is added."""
    for at in range(_GRAINS - length + 1):
        if at in reached:
            reached.add(at + length)
            yield at, at + length


def _read(nodes: Path, pods: Path) -> Lists:
    lists, memory = Lists(), Counter[Class]()
    for row in _rows(nodes):
        if int(row["gpu"]):
            lists.kinds[
                Kind(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            ] += 1
    for row in _rows(pods):
        count = int(row["num_gpu"])
        models = tuple(filter(None, (row.get("gpu_spec") or "").split("|")))
        one = Class(
            int(row["cpu_milli"]),
            count,
            int(row["gpu_milli"] or 0) if count else 0,
            models if count else (),
        )
        lists.classes[one] += 1
        memory[one] += int(row["memory_mib"])
    lists.memory = {one: memory[one] / number for one, number in lists.classes.items()}
    return lists


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
