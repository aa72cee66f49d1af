"""Check a record of the FGD paper's protocol against the raw openb lists, without the engine.

The checker fills the nodes line by line with its own arithmetic, in exact integers. No node may
hold more than it has, each pod is as the list has it, no pod is dropped that some node could take,
sums and results follow from the lines. It imports the standard library and the other checker alone
(a test asserts it). Rules: docs/how-to/simulate.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.simulation.checking.lists import (
    CARD,
    MIB,
    Row,
    is_model_match,
    parse_whole,
    read_cards,
    read_integer,
)
from gpupool.simulation.checking.live import RecordFault

#: Percent of the cards that arrives, as the paper and docs/how-to/simulate.md say. Of its own: the
#: checkers share no constant with what they check.
DEMAND_PCT = 130
#: Percentage points by which a rate of results.json may differ: those are sums of binary fractions.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class _ListedPod:
    cards: int
    milli: int
    models: str
    cpu_milli: int
    host_bytes: int

    @property
    def asked_milli(self) -> int:
        return self.cards * self.milli


@dataclass
class _FilledNode:
    model: str
    free: list[int]
    cpu_milli: int
    host_bytes: int


@dataclass
class _ProtocolLife:
    """One policy with one seed: the nodes as they are filled, and the sums of the lines."""

    nodes: dict[str, _FilledNode]
    capacity: int
    lines: int = 0
    #: So many lines there are to be.
    due: int = 0
    asked: int = 0
    allocated: int = 0
    claims: set[str] = field(default_factory=set)
    #: What was found to fit on no node: nothing ends, so it never will.
    nowhere: set[_ListedPod] = field(default_factory=set)
    #: Per arrived percent, what was allocated after each of its pods.
    levels: dict[int, list[int]] = field(default_factory=dict)


def check_protocol(
    pods: Iterable[Row],
    nodes: Sequence[Row],
    record: Iterable[Row],
    results: Sequence[Mapping[str, Any]] | None = None,
) -> Iterator[RecordFault]:
    """Yield everything that is wrong with the record, in its order, then with `results`."""
    known: dict[str, list[_ListedPod]] = {}
    for row in pods:
        known.setdefault(row["name"], []).append(_read_pod(row))
    lives: dict[_Name, _ProtocolLife] = {}
    for line, row in enumerate(record, start=2):
        name = row["policy"], row["seed"]
        if name not in lives:
            lives[name] = _start_life(nodes)
        yield from _check_readable_line(lives[name], known, line, row)
    if not lives:
        yield RecordFault(0, "empty", "it has no line")
    for name, life in lives.items():
        yield from (
            RecordFault(0, rule, f"{name[0]}, seed {name[1]}: {text}")
            for rule, text in _check_end(life, known)
        )
    if results is not None:
        yield from (RecordFault(0, "results", text) for text in _check_results(lives, results))


#: Policy and seed.
_Name = tuple[str, str]

#: Which rule, and the numbers.
_Found = Iterator[tuple[str, str]]


def _check_readable_line(
    life: _ProtocolLife, known: Mapping[str, Sequence[_ListedPod]], line: int, row: Row
) -> Iterator[RecordFault]:
    try:
        yield from (RecordFault(line, *found) for found in _check_line(life, known, row))
    except ValueError as error:
        yield RecordFault(line, "unreadable", f"{row['claim']}: {error}")


def _check_line(life: _ProtocolLife, known: Mapping[str, Sequence[_ListedPod]], row: Row) -> _Found:
    life.lines += 1
    claim = row["claim"]
    # Several pods of a list may have one name: the amounts of the line tell which is meant.
    pod = _find_pod(known.get(row["pod"], ()), row)
    if read_integer(row, "order") != life.lines:
        yield "order", f"{claim} has the place {row['order']}, and {life.lines} is due"
        life.lines = read_integer(row, "order")
    if life.due not in (0, read_integer(row, "arrivals")):
        yield "order", f"{claim} is one of {row['arrivals']}, and those before of {life.due}"
    life.due = read_integer(row, "arrivals")
    if claim in life.claims:
        yield "placed twice", f"{claim} came before"
    life.claims.add(claim)
    if pod is None:
        yield "unknown claim", f"{row['pod']} is not in the list of pods"
        return
    life.asked += pod.asked_milli
    yield from _check_amounts(pod, row)
    if row["event"] == "placed":
        yield from _check_placement(life, pod, row)
    elif row["event"] == "dropped":
        yield from _check_drop(life, pod, row)
    else:
        yield "unknown event", f"{row['event']} of {claim}"
    yield from _check_sums(life, row)


def _find_pod(pods: Sequence[_ListedPod], row: Row) -> _ListedPod | None:
    """Find the pod of that name; of several, the one that asks for what the line says."""
    for pod in pods:
        if not list(_check_amounts(pod, row)):
            return pod
    return pods[0] if pods else None


def _check_amounts(pod: _ListedPod, row: Row) -> _Found:
    """Check that the claim asks for what the list says."""
    asks = (("gpu_milli", pod.milli), ("cpu_milli", pod.cpu_milli), ("host_bytes", pod.host_bytes))
    for column, amount in asks:
        if read_integer(row, column) != amount:
            yield (
                "amount",
                f"{row['claim']} has {column} {row[column]}, and {amount} in the list of pods",
            )


def _check_placement(life: _ProtocolLife, pod: _ListedPod, row: Row) -> _Found:
    claim = row["claim"]
    node = life.nodes.get(row["node"])
    if node is None:
        yield "unknown node", f"{claim} is placed on {row['node']}"
        return
    cards = read_cards(row)
    if len(cards) != pod.cards:
        yield "number of cards", f"{claim} asks for {pod.cards} and gets {len(cards)}"
    if len(set(cards)) < len(cards):
        yield "a card twice", f"{claim} gets {row['cards']}"
    if not is_model_match(node.model, pod.models) and pod.cards:
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
        yield (
            "processors over",
            f"{row['node']}: {-node.cpu_milli} thousandths more than there are, with {claim}",
        )
    if node.host_bytes < 0:
        yield (
            "main memory over",
            f"{row['node']}: {-node.host_bytes} bytes more than there are, with {claim}",
        )


def _check_drop(life: _ProtocolLife, pod: _ListedPod, row: Row) -> _Found:
    """Check that no node has room for a dropped claim."""
    if row["node"] or row["cards"]:
        yield "unknown event", f"{row['claim']} is dropped and has {row['node']}:{row['cards']}"
    if pod in life.nowhere:
        return
    takes = next((name for name, node in life.nodes.items() if _has_room(pod, node)), None)
    if takes is None:
        life.nowhere.add(pod)
    else:
        yield "turned away", f"{row['claim']} is dropped, and {takes} has room for it"


def _has_room(pod: _ListedPod, node: _FilledNode) -> bool:
    if node.cpu_milli < pod.cpu_milli or node.host_bytes < pod.host_bytes:
        return False
    roomy = sum(free >= pod.milli for free in node.free)
    return roomy >= pod.cards and (not pod.cards or is_model_match(node.model, pod.models))


def _check_sums(life: _ProtocolLife, row: Row) -> _Found:
    # Rounded half up by integers: floats of the engine must agree with it, not the other way.
    level = (200 * life.asked + life.capacity) // (2 * life.capacity)
    for column, amount in (
        ("asked_milli", life.asked),
        ("allocated_milli", life.allocated),
        ("level", level),
    ):
        if read_integer(row, column) != amount:
            yield (
                "sum",
                f"{row['claim']} has {column} {row[column]}, and its lines come to {amount}",
            )
    if level <= DEMAND_PCT:  # the last pod may break it, and results end there
        life.levels.setdefault(level, []).append(life.allocated)


def _check_end(life: _ProtocolLife, known: Mapping[str, Sequence[_ListedPod]]) -> _Found:
    """Check that all pods came, and that as much was asked for as the protocol says."""
    if life.lines != life.due:
        yield "cut off", f"it has {life.lines} of {life.due} arrivals"
    largest = max((pod.asked_milli for pods in known.values() for pod in pods), default=0)
    due = life.capacity * DEMAND_PCT // 100
    if largest and not due - largest <= life.asked <= due + largest:
        yield (
            "demand",
            f"{life.asked} thousandths are asked for, and {due} are {DEMAND_PCT} % of the cards",
        )


def _check_results(
    lives: Mapping[_Name, _ProtocolLife], results: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    reported: dict[_Name, Sequence[Mapping[str, Any]]] = {}
    for one in results:
        reported[str(one["policy"]), str(one["seed"])] = one["levels"]
    for policy, seed in dict.fromkeys([*reported, *lives]):
        if (policy, seed) not in reported or (policy, seed) not in lives:
            yield f"{policy}, seed {seed} is in one of record and results alone"
    for (policy, seed), life in lives.items():
        levels: dict[int, float] = {}
        for level in reported.get((policy, seed), []):
            levels[int(level["arrived_pct"])] = level["allocation_pct"]
        for at in sorted({*levels, *life.levels} if levels else set()):
            sums = life.levels.get(at)
            rate = None if sums is None else 100 * sum(sums) / len(sums) / life.capacity
            percent = levels.get(at)
            if rate is None or percent is None or abs(rate - percent) > _TOLERANCE:
                yield (
                    f"{policy}, seed {seed} at {at} %: {percent} % allocated, and its lines come"
                    f" to {rate} %"
                )


# --- the raw lists -------------------------------------------------------------------------------


def _read_pod(row: Row) -> _ListedPod:
    cards = parse_whole(row["num_gpu"])
    return _ListedPod(
        cards=cards,
        milli=parse_whole(row["gpu_milli"]) if cards else 0,
        models="|".join(sorted(filter(None, (row.get("gpu_spec") or "").split("|")))),
        cpu_milli=parse_whole(row["cpu_milli"]),
        host_bytes=parse_whole(row["memory_mib"]) * MIB,
    )


def _start_life(rows: Sequence[Row]) -> _ProtocolLife:
    """Start with everything free; nodes without a card are left out, as in the paper."""
    nodes = {
        row["sn"]: _FilledNode(
            row["model"],
            [CARD] * parse_whole(row["gpu"]),
            parse_whole(row["cpu_milli"]),
            parse_whole(row["memory_mib"]) * MIB,
        )
        for row in rows
        if parse_whole(row["gpu"])
    }
    return _ProtocolLife(nodes, CARD * sum(len(node.free) for node in nodes.values()))
