"""Check a recorded simulation against the raw lists, without the engine.

The checker replays the record line by line with its own arithmetic, in exact integers. It reports
whatever a pool must never do: more on a card than the card has, a claim placed twice, on the wrong
model, released early, a gang in parts. It imports the standard library and `lists` alone (a test
asserts it), so no fault of the engine can be a fault here too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpupool.simulation.checking.lists import (
    CARD,
    NANOS_PER_SECOND,
    ListedClaim,
    ListedNode,
    Row,
    is_model_match,
    parse_nanoseconds,
    read_cards,
    read_claims,
    read_integer,
    read_node,
)

#: Percentage points by which a rate of results.json may differ: it is rounded there.
_TOLERANCE = 0.001


@dataclass(frozen=True)
class RecordFault:
    """One thing that is wrong: the rule, the numbers, and the line of the record.

    Line 0 is the record as a whole.
    """

    line: int
    rule: str
    text: str


#: Policy and seed.
_LifeName = tuple[str, str]


@dataclass(frozen=True)
class _HeldSeat:
    """What a placed claim holds: thousandths and bytes of each of its cards."""

    since_ns: int
    node: str
    cards: tuple[int, ...]
    milli: int
    memory_bytes: int


def check_record(
    claims: Sequence[Row],
    nodes: Sequence[Row],
    record: Iterable[Row],
    results: Sequence[Mapping[str, Any]] = (),
) -> list[RecordFault]:
    """Find everything that is wrong with the record, in its order, and with `results`.

    A record of several lives has the columns `policy` and `seed`; `results` are the runs of
    results.json. An empty list means that nothing is wrong.
    """
    lives: dict[_LifeName, _LifeCheck] = {}
    faults: list[RecordFault] = []
    # The first line of a file is its header.
    for line, row in enumerate(record, start=2):
        name = row.get("policy", ""), row.get("seed", "")
        if name not in lives:
            lives[name] = _LifeCheck(claims, nodes)
        faults += lives[name].check_line(line, row)
    if not lives:
        return [RecordFault(0, "empty", "it has no line")]
    for name, life in lives.items():
        for fault in life.check_end():
            faults.append(replace(fault, text=_name_life(name, fault.text)))
    if results:
        faults += _compare_results(lives, results)
    return faults


def _compare_results(
    lives: Mapping[_LifeName, _LifeCheck], results: Sequence[Mapping[str, Any]]
) -> Iterator[RecordFault]:
    runs = {(str(run["policy"]), str(run["seed"])): run for run in results}
    for name in dict.fromkeys([*runs, *lives]):
        if name not in lives or name not in runs:
            text = _name_life(name, "it is in one of record and results alone")
            yield RecordFault(0, "results", text)
            continue
        for text in lives[name].compare_totals(runs[name]):
            yield RecordFault(0, "results", _name_life(name, text))


def _name_life(name: tuple[str, str], text: str) -> str:
    return f"{name[0]}, seed {name[1]}: {text}" if any(name) else text


class _LifeCheck:
    """Checks one life, line by line."""

    def __init__(self, claims: Iterable[Row], nodes: Sequence[Row]) -> None:
        self._claims = dict(read_claims(claims))
        self._nodes = dict(read_node(row, number) for number, row in enumerate(nodes, start=2))
        self._events: Counter[str] = Counter()
        self._left: set[str] = set()
        arrivals = [one.arrival_ns for one in self._claims.values()]
        # The allocation of results.json is of this window too.
        self._window = min(arrivals, default=0), max(arrivals, default=0)
        #: Thousandths of a card times nanoseconds that were held from the first to the last
        #: arrival.
        self._in_window = 0
        self._gangs: dict[str, set[str]] = defaultdict(set)
        for name, one in self._claims.items():
            if one.gang:
                self._gangs[one.gang].add(name)
        self._held: dict[str, _HeldSeat] = {}
        self._over: set[str] = set()
        self._refused: set[str] = set()
        self._evictions: Counter[str] = Counter()
        self._moving: set[str] = set()
        self._line = 0
        self._now_ns = 0

    def check_line(self, line: int, row: Row) -> Iterator[RecordFault]:
        """Check the next line; a cell that cannot be read is a fault, not an error."""
        try:
            yield from self._check_event(line, row)
        except ValueError as error:
            self._line = line
            yield self._report_fault("unreadable", f"{row['claim']}: {error}")

    def _check_event(self, line: int, row: Row) -> Iterator[RecordFault]:
        at_ns = _read_instant_ns(row)
        name = row["claim"]
        event = row["event"]
        # Members of a gang are placed by several lines of one instant: they are compared when the
        # clock moves on.
        if at_ns > self._now_ns:
            yield from self._check_gangs()
        self._line = line
        if at_ns < self._now_ns:
            yield self._report_fault(
                "order", f"{row['time']} s comes after {Decimal(self._now_ns) / NANOS_PER_SECOND} s"
            )
        self._now_ns = max(at_ns, self._now_ns)
        self._events[event] += 1
        if name not in self._claims:
            yield self._report_fault("unknown claim", f"{name} is not in the list of claims")
        elif name in self._left:
            yield self._report_fault(
                "left before", f"{event} of {name}, which was left waiting at the end"
            )
        elif event == "placed":
            yield from self._check_placement(name, self._claims[name], row)
        elif event in ("ended", "evicted"):
            yield from self._check_release(name, self._claims[name], event)
        elif event == "refused":
            self._refused.add(name)
        elif event == "left":
            yield from self._check_left(name)
        else:
            yield self._report_fault("unknown event", f"{event} of {name}")

    def check_end(self) -> Iterator[RecordFault]:
        """Check, after the last line, that the record says what came of every claim."""
        yield from self._check_gangs()
        self._line = 0
        for name, held in self._held.items():
            yield self._report_fault(
                "never released", f"{name} holds cards of {held.node} to the end"
            )
        accounted = self._over | self._refused | self._left | set(self._held)
        lost = [name for name in self._claims if name not in accounted]
        if lost:
            yield self._report_fault(
                "lost", f"what came of {lost[0]} is not said; so it is of {len(lost)} in all"
            )

    def compare_totals(self, run: Mapping[str, Any]) -> Iterator[str]:
        """Find totals of results.json that do not follow from the lines."""
        counted = (
            ("evictions", run["evictions"], self._events["evicted"]),
            ("refused", sum(run["refused"].values()), self._events["refused"]),
        )
        for name, reported, computed in counted:
            if reported != computed:
                yield f"{name} {reported}, and its lines come to {computed}"
        begin, end = self._window
        capacity = CARD * sum(node.cards for node in self._nodes.values())
        reported_pct = run["allocation_pct"]
        if end > begin and reported_pct is not None:
            rate = 100 * self._in_window / (capacity * (end - begin))
            if abs(rate - reported_pct) > _TOLERANCE:
                yield f"allocation_pct {reported_pct}, and its lines come to {rate:.4f}"

    # --- events ------------------------------------------------------------------------------

    def _check_placement(self, name: str, claim: ListedClaim, row: Row) -> Iterator[RecordFault]:
        if name in self._held or name in self._over:
            why = "holds its cards already" if name in self._held else "has ended already"
            yield self._report_fault("placed twice", f"{name} {why}")
            return
        if self._now_ns < claim.arrival_ns:
            yield self._report_fault(
                "too early", f"{name} comes at {Decimal(claim.arrival_ns) / NANOS_PER_SECOND} s"
            )
        if name in self._refused:
            yield self._report_fault("placed twice", f"{name} was refused before")
        node = self._nodes.get(row["node"])
        if node is None:
            yield self._report_fault("unknown node", f"{name} is placed on {row['node']}")
            return
        cards = read_cards(row)
        held = _HeldSeat(
            self._now_ns,
            row["node"],
            cards,
            read_integer(row, "gpu_milli"),
            read_integer(row, "memory_bytes"),
        )
        yield from self._check_request(name, claim, held, node)
        self._held[name] = held
        self._moving.add(claim.gang)
        yield from self._check_capacity(name, claim, held, node)

    def _check_request(
        self, name: str, claim: ListedClaim, held: _HeldSeat, node: ListedNode
    ) -> Iterator[RecordFault]:
        """Check that the cards are those that the claim asks for."""
        if len(held.cards) != claim.cards:
            yield self._report_fault(
                "number of cards", f"{name} asks for {claim.cards} and gets {len(held.cards)}"
            )
        if len(set(held.cards)) < len(held.cards):
            yield self._report_fault("a card twice", f"{name} gets {held.cards}")
        if any(not 0 <= card < node.cards for card in held.cards):
            yield self._report_fault(
                "unknown card", f"{held.node} has {node.cards} cards; {name} gets {held.cards}"
            )
        # The list of claims has no size of a profile, so a partition's compute is not compared.
        if not claim.partition and held.milli != claim.milli:
            yield self._report_fault(
                "amount", f"{name} asks for {claim.milli} thousandths and gets {held.milli}"
            )
        if held.memory_bytes < claim.memory_bytes:
            yield self._report_fault(
                "amount", f"{name} asks for {claim.memory_bytes} bytes and gets {held.memory_bytes}"
            )
        if claim.cards and not is_model_match(node.models, claim.model):
            yield self._report_fault(
                "wrong model", f"{name} asks for {claim.model}; {held.node} has {node.models}"
            )

    def _check_capacity(
        self, name: str, claim: ListedClaim, held: _HeldSeat, node: ListedNode
    ) -> Iterator[RecordFault]:
        """Check that each card and the node have as much."""
        for card in held.cards:
            node.milli[card] += held.milli
            node.memory[card] += held.memory_bytes
            if node.milli[card] > CARD:
                used = (
                    f"{held.node} card {card}: {node.milli[card]} of {CARD} thousandths with {name}"
                )
                yield self._report_fault("compute over", used)
            if node.memory_bytes is not None and node.memory[card] > node.memory_bytes:
                used = f"{held.node} card {card}: {node.memory[card]} of {node.memory_bytes} bytes with {name}"
                yield self._report_fault("memory over", used)
        node.cpu_used += claim.cpu_milli
        node.host_used += claim.host_bytes
        for what, used_now, most in (
            ("processors", node.cpu_used, node.cpu_milli),
            ("main memory", node.host_used, node.host_bytes),
        ):
            if most is not None and used_now > most:
                yield self._report_fault(
                    f"{what} over", f"{held.node}: {used_now} of {most} with {name}"
                )

    def _check_left(self, name: str) -> Iterator[RecordFault]:
        self._left.add(name)
        if name in self._held or name in self._over:
            yield self._report_fault(
                "left before", f"{name} is left waiting and was placed or has ended"
            )

    def _check_release(self, name: str, claim: ListedClaim, event: str) -> Iterator[RecordFault]:
        held = self._held.pop(name, None)
        if held is None:
            yield self._report_fault("released and not placed", f"{name} {event}")
            return
        node = self._nodes[held.node]
        for card in held.cards:
            node.milli[card] -= held.milli
            node.memory[card] -= held.memory_bytes
        node.cpu_used -= claim.cpu_milli
        node.host_used -= claim.host_bytes
        begin = max(held.since_ns, self._window[0])
        end = min(self._now_ns, self._window[1])
        self._in_window += max(0, end - begin) * held.milli * len(held.cards)
        if event == "evicted":
            self._evictions[name] += 1
            self._moving.add(claim.gang)
            return
        self._over.add(name)
        # An eviction names lost work in whole seconds: up to one second of each stays done.
        least_ns = claim.run_ns - self._evictions[name] * NANOS_PER_SECOND
        ran_ns = self._now_ns - held.since_ns
        text = (
            f"{name} runs for {Decimal(claim.run_ns) / NANOS_PER_SECOND} s and ran for"
            f" {Decimal(ran_ns) / NANOS_PER_SECOND} s"
        )
        if ran_ns < least_ns:
            yield self._report_fault("released early", text)
        elif ran_ns > claim.run_ns:
            yield self._report_fault("released late", text)

    def _check_gangs(self) -> Iterator[RecordFault]:
        """Check, when the clock moves on, that each changed gang holds all its cards or none.

        Members that have ended do not count.
        """
        for gang in sorted(self._moving - {""}):
            alive = self._gangs[gang] - self._over
            there = sum(name in self._held for name in alive)
            if there not in (0, len(alive)):
                yield self._report_fault(
                    "gang in parts", f"{there} of {len(alive)} members of {gang} hold their cards"
                )
        self._moving.clear()

    def _report_fault(self, rule: str, text: str) -> RecordFault:
        return RecordFault(self._line, rule, text)


def _read_instant_ns(row: Row) -> int:
    try:
        return parse_nanoseconds(row["time"])
    except ArithmeticError:
        raise ValueError(f"time is {row['time']!r}, not a number of seconds") from None
