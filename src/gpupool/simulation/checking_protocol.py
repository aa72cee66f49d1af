"""An independent check of a record by the FGD paper's protocol: reads the raw openb lists, knows nothing of the engine.

It fills the nodes line by line with its own arithmetic, in exact integers: nothing over what there is, each pod as the
list has it, none turned away that some node could take, sums and results as they follow from the lines. Imports the
standard library and the other checker alone (a test asserts it). Rules: docs/how-to/simulate.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.simulation.checking import Fault
from gpupool.simulation.checking_lists import CARD, MIB, Row, integer, is_model, places, whole

DEMAND_PCT = 130
#: Percentage points by which a rate of results.json may differ: those are sums of binary fractions.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class _Pod:
    cards: int
    milli: int
    models: str
    cpu_milli: int
    host_bytes: int

    @property
    def asked(self) -> int:
        return self.cards * self.milli


@dataclass
class _Node:
    model: str
    free: list[int]
    cpu_milli: int
    host_bytes: int


@dataclass
class _Life:
    """One policy with one seed: the nodes as they are filled, and what the lines came to."""

    nodes: dict[str, _Node]
    capacity: int
    lines: int = 0
    due: int = 0
    """So many lines there are to be."""
    asked: int = 0
    allocated: int = 0
    claims: set[str] = field(default_factory=set)
    nowhere: set[_Pod] = field(default_factory=set)
    """What was found to fit on no node: nothing ends, so it never will."""
    levels: dict[int, list[int]] = field(default_factory=dict)
    """Per arrived percent, what was allocated after each of its pods."""


def check_protocol(
    pods: Iterable[Row], nodes: Sequence[Row], record: Iterable[Row], results: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[Fault]:
    """Everything that is wrong with the record, in its order, then what is wrong with `results`, if they are given."""
    known: dict[str, list[_Pod]] = {}
    for row in pods:
        known.setdefault(row["name"], []).append(_pod(row))
    lives: dict[_Name, _Life] = {}
    for line, row in enumerate(record, start=2):
        name = row["policy"], row["seed"]
        if name not in lives:
            lives[name] = _begin(nodes)
        yield from _taken(lives[name], known, line, row)
    if not lives:
        yield Fault(0, "empty", "it has no line")
    for name, life in lives.items():
        yield from (Fault(0, rule, f"{name[0]}, seed {name[1]}: {text}") for rule, text in _end(life, known))
    if results is not None:
        yield from (Fault(0, "results", text) for text in _results(lives, results))


_Name = tuple[str, str]
"""Policy and seed."""

_Found = Iterator[tuple[str, str]]
"""Which rule, and the numbers."""


def _taken(life: _Life, known: Mapping[str, Sequence[_Pod]], line: int, row: Row) -> Iterator[Fault]:
    try:
        yield from (Fault(line, *found) for found in _line(life, known, row))
    except ValueError as error:
        yield Fault(line, "unreadable", f"{row['claim']}: {error}")


def _line(life: _Life, known: Mapping[str, Sequence[_Pod]], row: Row) -> _Found:
    life.lines += 1
    claim, pod = row["claim"], _named(known.get(row["pod"], ()), row)
    if integer(row, "order") != life.lines:
        yield "order", f"{claim} has the place {row['order']}, and {life.lines} is due"
        life.lines = integer(row, "order")
    if life.due not in (0, integer(row, "arrivals")):
        yield "order", f"{claim} is one of {row['arrivals']}, and those before of {life.due}"
    life.due = integer(row, "arrivals")
    if claim in life.claims:
        yield "placed twice", f"{claim} came before"
    life.claims.add(claim)
    if pod is None:
        yield "unknown claim", f"{row['pod']} is not in the list of pods"
        return
    life.asked += pod.asked
    yield from _amounts(pod, row)
    if row["event"] == "placed":
        yield from _place(life, pod, row)
    elif row["event"] == "dropped":
        yield from _drop(life, pod, row)
    else:
        yield "unknown event", f"{row['event']} of {claim}"
    yield from _sums(life, row)


def _named(pods: Sequence[_Pod], row: Row) -> _Pod | None:
    """The pod of that name; of several, the one that asks for what the line says."""
    return next((pod for pod in pods if not list(_amounts(pod, row))), pods[0] if pods else None)


def _amounts(pod: _Pod, row: Row) -> _Found:
    """Whether the claim asks for what the list says."""
    asks = (("gpu_milli", pod.milli), ("cpu_milli", pod.cpu_milli), ("host_bytes", pod.host_bytes))
    for column, amount in asks:
        if integer(row, column) != amount:
            yield "amount", f"{row['claim']} has {column} {row[column]}, and {amount} in the list of pods"


def _place(life: _Life, pod: _Pod, row: Row) -> _Found:
    claim, node = row["claim"], life.nodes.get(row["node"])
    if node is None:
        yield "unknown node", f"{claim} is placed on {row['node']}"
        return
    cards = places(row)
    if len(cards) != pod.cards:
        yield "number of cards", f"{claim} asks for {pod.cards} and gets {len(cards)}"
    if len(set(cards)) < len(cards):
        yield "a card twice", f"{claim} gets {row['cards']}"
    if not is_model(node.model, pod.models) and pod.cards:
        yield "wrong model", f"{claim} asks for {pod.models}; {row['node']} has {node.model}"
    life.allocated += len(cards) * pod.milli
    for card in cards:
        if not 0 <= card < len(node.free):
            yield "unknown card", f"{row['node']} has {len(node.free)} cards; {claim} gets {card}"
            continue
        node.free[card] -= pod.milli
        if node.free[card] < 0:
            yield (
                "compute over",
                f"{row['node']} card {card}: {CARD - node.free[card]} of {CARD} thousandths with {claim}",
            )
    node.cpu_milli -= pod.cpu_milli
    node.host_bytes -= pod.host_bytes
    if node.cpu_milli < 0:
        yield "processors over", f"{row['node']}: {-node.cpu_milli} thousandths more than there are, with {claim}"
    if node.host_bytes < 0:
        yield "main memory over", f"{row['node']}: {-node.host_bytes} bytes more than there are, with {claim}"


def _drop(life: _Life, pod: _Pod, row: Row) -> _Found:
    """A claim may be dropped only where no node has room for it."""
    if row["node"] or row["cards"]:
        yield "unknown event", f"{row['claim']} is dropped and has {row['node']}:{row['cards']}"
    if pod in life.nowhere:
        return
    takes = next((name for name, node in life.nodes.items() if _fits(pod, node)), None)
    if takes is None:
        life.nowhere.add(pod)
    else:
        yield "turned away", f"{row['claim']} is dropped, and {takes} has room for it"


def _fits(pod: _Pod, node: _Node) -> bool:
    if node.cpu_milli < pod.cpu_milli or node.host_bytes < pod.host_bytes:
        return False
    roomy = sum(free >= pod.milli for free in node.free)
    return roomy >= pod.cards and (not pod.cards or is_model(node.model, pod.models))


def _sums(life: _Life, row: Row) -> _Found:
    level = (200 * life.asked + life.capacity) // (2 * life.capacity)
    for column, amount in (("asked_milli", life.asked), ("allocated_milli", life.allocated), ("level", level)):
        if integer(row, column) != amount:
            yield "sum", f"{row['claim']} has {column} {row[column]}, and its lines come to {amount}"
    if level <= DEMAND_PCT:  # the last pod may break it, and results end there
        life.levels.setdefault(level, []).append(life.allocated)


def _end(life: _Life, known: Mapping[str, Sequence[_Pod]]) -> _Found:
    """Whether all came, and as much was asked for as the protocol says."""
    if life.lines != life.due:
        yield "cut off", f"it has {life.lines} of {life.due} arrivals"
    largest = max((pod.asked for pods in known.values() for pod in pods), default=0)
    due = life.capacity * DEMAND_PCT // 100
    if largest and not due - largest <= life.asked <= due + largest:
        yield "demand", f"{life.asked} thousandths are asked for, and {due} are {DEMAND_PCT} % of the cards"


def _results(lives: Mapping[_Name, _Life], results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    told = {(str(one["policy"]), str(one["seed"])): one["levels"] for one in results}
    for policy, seed in [*(name for name in told if name not in lives), *(name for name in lives if name not in told)]:
        yield f"{policy}, seed {seed} is in one of record and results alone"
    for (policy, seed), life in lives.items():
        levels = {int(level["arrived_pct"]): level["allocation_pct"] for level in told.get((policy, seed), [])}
        for at in sorted({*levels, *life.levels} if levels else set()):
            sums = life.levels.get(at)
            rate = None if sums is None else 100 * sum(sums) / len(sums) / life.capacity
            said = levels.get(at)
            if rate is None or said is None or abs(rate - said) > _TOLERANCE:
                yield f"{policy}, seed {seed} at {at} %: {said} % allocated, and its lines come to {rate} %"


# --- the raw lists -------------------------------------------------------------------------------


def _pod(row: Row) -> _Pod:
    cards = whole(row["num_gpu"])
    return _Pod(
        cards=cards,
        milli=whole(row["gpu_milli"]) if cards else 0,
        models="|".join(sorted(filter(None, (row.get("gpu_spec") or "").split("|")))),
        cpu_milli=whole(row["cpu_milli"]),
        host_bytes=whole(row["memory_mib"]) * MIB,
    )


def _begin(rows: Sequence[Row]) -> _Life:
    """Everything free; nodes without a card are left out, as in the paper."""
    nodes = {
        row["sn"]: _Node(
            row["model"], [CARD] * whole(row["gpu"]), whole(row["cpu_milli"]), whole(row["memory_mib"]) * MIB
        )
        for row in rows
        if whole(row["gpu"])
    }
    return _Life(nodes, CARD * sum(len(node.free) for node in nodes.values()))
