"""Starts that nothing that comes later puts off: which starts are such promises, and how they are kept.

A start is promised where all that has to end before it ends by a limit, and where it is near: what is kept for it then
stays kept, whatever comes, of any rank. It is as if the claim had started already, up to HORIZON_NS early. Every other
start is an estimate: a claim of higher rank may come, a job may run longer than the past says, a reservation may take
other cards, and what may be preempted may lose its turn. What breaks a promise is a fault of its cards, or a person who
changes quotas or reservations.
See docs/decisions/0029-promised-starts.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce

import numpy as np

from gpupool.scheduling.backfill import kept_by
from gpupool.scheduling.columns import Taken
from gpupool.scheduling.ends import SECOND
from gpupool.scheduling.quotas_ahead import QuotasAhead
from gpupool.scheduling.snapshot import Bools, Cards, ClassKey, Ints, Snapshot, Start, Waiting
from gpupool.scheduling.timeline import Hold, Timeline
from gpupool.scheduling.work import Work

HORIZON_NS = 3600 * SECOND
"""How long before it a start is promised at most. Cards that are kept from claims of any rank are idle until then."""

Promised = Mapping[str, Start]
"""By claim (a job, or a gang by id) that waits, its promise; the earliest first."""


def firm_starts(snapshot: Snapshot) -> Promised:
    """The promises of the last plan."""
    return {start.claim: start for start in snapshot.promised.values() if start.firm}


def promised_claims(snapshot: Snapshot, among: Iterable[Waiting]) -> Promised:
    """Those that are still to be kept, on the cards of this snapshot; `among` are the classes that may have them."""
    firm = firm_starts(snapshot)
    if not firm:
        return {}
    waiting = _waiting_among(among, firm)
    there = ((claim, on_cards(start, snapshot.cards)) for claim, start in firm.items() if claim in waiting)
    found = {claim: start for claim, start in there if start is not None}
    return dict(sorted(found.items(), key=lambda one: (one[1].at_ns, one[0])))


def _waiting_among(waiting: Iterable[Waiting], claims: Iterable[str]) -> dict[str, Waiting]:
    """By claim those that still wait, with their class, which may be another one than it was."""
    found, wanted = dict[str, Waiting](), frozenset(claims)
    for one in waiting:
        names = one.heads if one.gang is None else (one.gang.id,)
        if not wanted.isdisjoint(names):
            found.update((name, one) for name in names if name in wanted)
    return found


def on_cards(start: Start, cards: Cards) -> Start | None:
    """The same start where the cards may have other numbers than before; None where one of them is gone."""
    rows = start.rows
    if all(row < len(cards) and cards.uuids[row] == name for row, name in zip(rows, start.devices, strict=True)):
        return start
    number = {uuid: row for row, uuid in enumerate(cards.uuids)}
    if any(name not in number for name in start.devices):
        return None
    return replace(start, rows=tuple(number[name] for name in start.devices))


def as_promise(start: Start, taken: Taken, cards: Cards) -> Start:
    """The start with all that has to be known of it in the next snapshot."""
    nodes = zip(taken.nodes.tolist(), taken.cpu_milli.tolist(), taken.host_bytes.tolist(), strict=True)
    hosts = tuple((cards.nodes[node], cpu, size) for node, cpu, size in nodes if cpu or size)
    return replace(start, firm=True, hosts=hosts, devices=tuple(cards.uuids[row] for row in start.rows))


def promised_seats(start: Start, cards: Cards) -> Taken:
    """All that is kept for a promise."""
    number = {name: place for place, name in enumerate(cards.nodes)} if start.hosts else {}
    known = [(number[name], cpu, size) for name, cpu, size in start.hosts if name in number]
    nodes = np.array(known, dtype=np.int64).reshape(-1, 3).T
    return kept_by(start)._replace(nodes=nodes[0], cpu_milli=nodes[1], host_bytes=nodes[2])


class PromisesAhead:
    """The promises of the last plan, held before any claim has its turn; each is out of the way of its own claim's."""

    def __init__(self, promised: Promised, waiting: Iterable[Waiting], timeline: Timeline, quotas: QuotasAhead) -> None:
        self._timeline, self._quotas = timeline, quotas
        self._promised = promised
        self._holds: dict[str, Hold] = {}
        self._classes = _waiting_among(waiting, promised) if promised else {}
        for start in promised.values():
            self._hold(start)

    def lift(self, claim: str) -> bool:
        """It is this claim's turn; whether anything was held for it."""
        hold = self._holds.pop(claim, None)
        if hold is None:
            return False
        self._timeline.release(hold)
        self._quotas.forget(claim)
        return True

    def again(self, start: Start) -> None:
        """It did not start, and what it was promised stands."""
        self._hold(start)

    def untouched(self) -> dict[ClassKey, Start]:
        """Promises of claims that had no turn, or whose turn changed nothing."""
        return {self._classes[claim].key: self._promised[claim] for claim in self._holds}

    def _hold(self, start: Start) -> None:
        timeline, waiting = self._timeline, self._classes[start.claim]
        since = max(start.at_ns, timeline.now_ns)
        until = timeline.until(waiting.seconds, since)
        hold = Hold(promised_seats(start, timeline.cards), since, until)
        timeline.hold(hold)
        self._holds[start.claim] = hold
        firm = not waiting.preemptible
        self._quotas.keep(waiting.tenant, hold.taken, since, until, firm=firm, claim=start.claim)


class Certain:
    """Whether a start is sure enough to be promised: nothing that it waits for ends by a guess, or is late already."""

    def __init__(self, work: Work, now_ns: int) -> None:
        self._work, self._now_ns = work, now_ns
        self._placed: list[Ints] = []
        self._reserved: Bools | None = None

    def placed(self, waiting: Waiting, taken: Taken) -> None:
        """Such a claim sits there from now on."""
        if waiting.guessed:
            self._placed.append(taken.rows)

    def is_certain(self, waiting: Waiting, start_ns: int, taken: Taken, usable: Bools) -> bool:
        """`usable` are the cards that the claim could use, `taken` those that it would get then."""
        if waiting.preemptible or waiting.reservation is not None or start_ns - self._now_ns > HORIZON_NS:
            return False
        if taken.pieces or self._by_numa(taken) or (usable & self._may_be_reserved()).any():
            return False
        unsure = self._unsure()
        if len(unsure) and self._work.quotas.tree.resources:
            return False
        node = self._work.free.cards.node
        return not np.isin(node[unsure], node[taken.rows]).any()

    def _by_numa(self, taken: Taken) -> bool:
        """On which NUMA node something comes back is not foreseen."""
        hosts = self._work.free.cards.hosts
        return hosts is not None and hosts.numa is not None and bool(taken.cpu_milli.any() or taken.host_bytes.any())

    def _may_be_reserved(self) -> Bools:
        """Cards that a reservation could choose: it does so anew in each plan."""
        if self._reserved is None:
            shapes = {one.shape for one in self._work.snapshot.reservations}
            none = np.zeros(len(self._work.free.cards), dtype=np.bool_)
            self._reserved = reduce(np.logical_or, (self._work.fit(shape).possible for shape in shapes), none)
        return self._reserved

    def _unsure(self) -> Ints:
        """Rows of the cards on which a job may run longer than is thought."""
        roster = self._work.roster
        guessed = np.array([row for job in roster.guessed() for row in job.rows], dtype=np.int64)
        return np.concatenate([guessed, roster.ends.overdue(self._now_ns), *self._placed])
