"""An independent check of a recorded simulation: reads the raw lists and the record, and knows nothing of the engine.

It replays the record line by line with its own arithmetic, in exact integers, and names whatever a pool must never do:
more on a card than it has, a claim placed twice, on the wrong model, released early, a gang in parts. Imports the
standard library and `checking_lists` alone (a test asserts it), so no fault of the engine can be a fault here too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpupool.simulation.checking_lists import (
    CARD,
    NS,
    Claim,
    Node,
    Row,
    claims_of,
    integer,
    is_model,
    nanoseconds,
    node_of,
    places,
)

#: Percentage points by which a rate of results.json may differ: it is rounded there.
_TOLERANCE = 0.001


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: the line of the record (0: the record as a whole), which rule, and the numbers."""

    line: int
    rule: str
    text: str


@dataclass(frozen=True)
class _Held:
    since_ns: int
    node: str
    cards: tuple[int, ...]
    milli: int
    memory_bytes: int


def check(
    claims: Sequence[Row], nodes: Sequence[Row], record: Iterable[Row], results: Sequence[Mapping[str, Any]] = ()
) -> list[Fault]:
    """Everything that is wrong with the record, in its order, and with `results`; nothing where the list is empty.

    A record of several lives has the columns `policy` and `seed`.
    """
    lives: dict[tuple[str, str], _Check] = {}
    faults: list[Fault] = []
    for line, row in enumerate(record, start=2):
        name = row.get("policy", ""), row.get("seed", "")
        if name not in lives:
            lives[name] = _Check(claims, nodes)
        faults += lives[name].take(line, row)
    if not lives:
        return [Fault(0, "empty", "it has no line")]
    for name, life in lives.items():
        faults += (replace(one, text=_of_life(name, one.text)) for one in life.end())
    told = {(str(run["policy"]), str(run["seed"])): run for run in results}
    for name in dict.fromkeys([*told, *lives]) if told else ():
        if name not in lives or name not in told:
            faults.append(Fault(0, "results", _of_life(name, "it is in one of record and results alone")))
        else:
            faults += (Fault(0, "results", _of_life(name, text)) for text in lives[name].compare(told[name]))
    return faults


def _of_life(name: tuple[str, str], text: str) -> str:
    return f"{name[0]}, seed {name[1]}: {text}" if any(name) else text


class _Check:
    """One life, line by line."""

    def __init__(self, claims: Iterable[Row], nodes: Sequence[Row]) -> None:
        self._claims = dict(claims_of(claims))
        self._nodes = dict(node_of(row, number) for number, row in enumerate(nodes, start=2))
        self._events: Counter[str] = Counter()
        self._left: set[str] = set()
        arrivals = [one.arrival_ns for one in self._claims.values()]
        self._window = min(arrivals, default=0), max(arrivals, default=0)
        self._in_window = 0
        """Thousandths of a card times nanoseconds that were held from the first to the last arrival."""
        self._gangs: dict[str, set[str]] = defaultdict(set)
        for name, one in self._claims.items():
            if one.gang:
                self._gangs[one.gang].add(name)
        self._held: dict[str, _Held] = {}
        self._over: set[str] = set()
        self._refused: set[str] = set()
        self._evictions: Counter[str] = Counter()
        self._moving: set[str] = set()
        self._line = self._now_ns = 0

    def take(self, line: int, row: Row) -> Iterator[Fault]:
        """The next line."""
        try:
            yield from self._take(line, row)
        except ValueError as error:
            self._line = line
            yield self._fault("unreadable", f"{row['claim']}: {error}")

    def _take(self, line: int, row: Row) -> Iterator[Fault]:
        at_ns, name, event = _instant_ns(row), row["claim"], row["event"]
        if at_ns > self._now_ns:
            yield from self._gangs_in_parts()
        self._line = line
        if at_ns < self._now_ns:
            yield self._fault("order", f"{row['time']} s comes after {Decimal(self._now_ns) / NS} s")
        self._now_ns = max(at_ns, self._now_ns)
        self._events[event] += 1
        if name not in self._claims:
            yield self._fault("unknown claim", f"{name} is not in the list of claims")
        elif name in self._left:
            yield self._fault("left before", f"{event} of {name}, which was left waiting at the end")
        elif event == "placed":
            yield from self._place(name, self._claims[name], row)
        elif event in ("ended", "evicted"):
            yield from self._release(name, self._claims[name], event)
        elif event == "refused":
            self._refused.add(name)
        elif event == "left":
            yield from self._leave(name)
        else:
            yield self._fault("unknown event", f"{event} of {name}")

    def end(self) -> Iterator[Fault]:
        """After the last line: claims of which the record does not say what came of them."""
        yield from self._gangs_in_parts()
        self._line = 0
        for name, held in self._held.items():
            yield self._fault("never released", f"{name} holds cards of {held.node} to the end")
        accounted = self._over | self._refused | self._left | set(self._held)
        lost = [name for name in self._claims if name not in accounted]
        if lost:
            yield self._fault("lost", f"what came of {lost[0]} is not said; so it is of {len(lost)} in all")

    def compare(self, run: Mapping[str, Any]) -> Iterator[str]:
        """Totals of results.json that do not follow from the lines."""
        counted = (
            ("evictions", run["evictions"], self._events["evicted"]),
            ("refused", sum(run["refused"].values()), self._events["refused"]),
        )
        for name, told, found in counted:
            if told != found:
                yield f"{name} {told}, and its lines come to {found}"
        begin, end = self._window
        capacity = CARD * sum(node.cards for node in self._nodes.values())
        told_pct = run["allocation_pct"]
        if end > begin and told_pct is not None:
            rate = 100 * self._in_window / (capacity * (end - begin))
            if abs(rate - told_pct) > _TOLERANCE:
                yield f"allocation_pct {told_pct}, and its lines come to {rate:.4f}"

    # --- events ------------------------------------------------------------------------------

    def _place(self, name: str, claim: Claim, row: Row) -> Iterator[Fault]:
        if name in self._held or name in self._over:
            why = "holds its cards already" if name in self._held else "has ended already"
            yield self._fault("placed twice", f"{name} {why}")
            return
        if self._now_ns < claim.arrival_ns:
            yield self._fault("too early", f"{name} comes at {Decimal(claim.arrival_ns) / NS} s")
        if name in self._refused:
            yield self._fault("placed twice", f"{name} was refused before")
        node = self._nodes.get(row["node"])
        if node is None:
            yield self._fault("unknown node", f"{name} is placed on {row['node']}")
            return
        cards = places(row)
        held = _Held(self._now_ns, row["node"], cards, integer(row, "gpu_milli"), integer(row, "memory_bytes"))
        yield from self._asked(name, claim, held, node)
        self._held[name] = held
        self._moving.add(claim.gang)
        yield from self._taken(name, claim, held, node)

    def _asked(self, name: str, claim: Claim, held: _Held, node: Node) -> Iterator[Fault]:
        """Whether the cards are those that the claim asks for."""
        if len(held.cards) != claim.cards:
            yield self._fault("number of cards", f"{name} asks for {claim.cards} and gets {len(held.cards)}")
        if len(set(held.cards)) < len(held.cards):
            yield self._fault("a card twice", f"{name} gets {held.cards}")
        if any(not 0 <= card < node.cards for card in held.cards):
            yield self._fault("unknown card", f"{held.node} has {node.cards} cards; {name} gets {held.cards}")
        if not claim.partition and held.milli != claim.milli:
            yield self._fault("amount", f"{name} asks for {claim.milli} thousandths and gets {held.milli}")
        if held.memory_bytes < claim.memory_bytes:
            yield self._fault("amount", f"{name} asks for {claim.memory_bytes} bytes and gets {held.memory_bytes}")
        if claim.cards and not is_model(node.models, claim.model):
            yield self._fault("wrong model", f"{name} asks for {claim.model}; {held.node} has {node.models}")

    def _taken(self, name: str, claim: Claim, held: _Held, node: Node) -> Iterator[Fault]:
        """Whether there is as much: on each card, and on the node."""
        for card in held.cards:
            node.milli[card] += held.milli
            node.memory[card] += held.memory_bytes
            if node.milli[card] > CARD:
                used = f"{held.node} card {card}: {node.milli[card]} of {CARD} thousandths with {name}"
                yield self._fault("compute over", used)
            if node.memory_bytes is not None and node.memory[card] > node.memory_bytes:
                used = f"{held.node} card {card}: {node.memory[card]} of {node.memory_bytes} bytes with {name}"
                yield self._fault("memory over", used)
        node.cpu_used += claim.cpu_milli
        node.host_used += claim.host_bytes
        for what, used_now, most in (
            ("processors", node.cpu_used, node.cpu_milli),
            ("main memory", node.host_used, node.host_bytes),
        ):
            if most is not None and used_now > most:
                yield self._fault(f"{what} over", f"{held.node}: {used_now} of {most} with {name}")

    def _leave(self, name: str) -> Iterator[Fault]:
        self._left.add(name)
        if name in self._held or name in self._over:
            yield self._fault("left before", f"{name} is left waiting and was placed or has ended")

    def _release(self, name: str, claim: Claim, event: str) -> Iterator[Fault]:
        held = self._held.pop(name, None)
        if held is None:
            yield self._fault("released and not placed", f"{name} {event}")
            return
        node = self._nodes[held.node]
        for card in held.cards:
            node.milli[card] -= held.milli
            node.memory[card] -= held.memory_bytes
        node.cpu_used -= claim.cpu_milli
        node.host_used -= claim.host_bytes
        begin, end = max(held.since_ns, self._window[0]), min(self._now_ns, self._window[1])
        self._in_window += max(0, end - begin) * held.milli * len(held.cards)
        if event == "evicted":
            self._evictions[name] += 1
            self._moving.add(claim.gang)
            return
        self._over.add(name)
        # An eviction is told in whole seconds of lost work: up to one second of each stays done.
        due = claim.run_ns - self._evictions[name] * NS
        if self._now_ns - held.since_ns < due:
            ran = Decimal(self._now_ns - held.since_ns) / NS
            yield self._fault("released early", f"{name} runs for {Decimal(claim.run_ns) / NS} s and ran for {ran} s")
        elif self._now_ns - held.since_ns > claim.run_ns:
            ran = Decimal(self._now_ns - held.since_ns) / NS
            yield self._fault("released late", f"{name} runs for {Decimal(claim.run_ns) / NS} s and ran for {ran} s")

    def _gangs_in_parts(self) -> Iterator[Fault]:
        """When the clock moves on: of a gang that came or left, all members that have not ended hold cards, or none."""
        for gang in sorted(self._moving - {""}):
            alive = self._gangs[gang] - self._over
            there = sum(name in self._held for name in alive)
            if there not in (0, len(alive)):
                yield self._fault("gang in parts", f"{there} of {len(alive)} members of {gang} hold their cards")
        self._moving.clear()

    def _fault(self, rule: str, text: str) -> Fault:
        return Fault(self._line, rule, text)


def _instant_ns(row: Row) -> int:
    try:
        return nanoseconds(row["time"])
    except ArithmeticError:
        raise ValueError(f"time is {row['time']!r}, not a number of seconds") from None
