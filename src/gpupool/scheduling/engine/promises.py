"""Promised starts: which starts no later claim delays, and how the next cycle keeps them.

A start is promised where all jobs that must end before it end by a limit, and where it is near.
From then on its cards stay held, whatever claims of any rank come: as if the claim had started
already, up to HORIZON_NS early. Every other start is an estimate: a claim of higher rank may come,
a job may run longer than estimated, a reservation may take other cards, and a preemptible claim may
lose its turn. Only a fault of its cards, or a change of quotas or reservations, breaks a promise.
See docs/decisions/0029-promised-starts.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling.filtering.capacity_columns import SeatAmounts
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.backfill import make_seats_of_start
from gpupool.scheduling.timeline.quotas_over_time import QuotasOverTime
from gpupool.scheduling.timeline.timeline import Hold, Timeline
from gpupool.scheduling.workspace.transaction import PlanningTransaction

#: At most so long before it a start is promised: cards held against claims of any rank idle until
#: then.
HORIZON_NS = 3600 * NANOS_PER_SECOND

#: Promises by claim (a job, or a gang by id) that waits; the earliest first.
Promised = Mapping[str, PlannedStart]


def list_firm_starts(snapshot: Snapshot) -> Promised:
    """Return the promises of the last plan."""
    return {start.claim: start for start in snapshot.previous_starts.values() if start.firm}


def list_promised_claims(snapshot: Snapshot, among: Iterable[WaitingClass]) -> Promised:
    """Return the promises still to be kept, on the cards of this snapshot.

    Args:
        snapshot: the pool now.
        among: the classes that may have them.
    """
    firm = list_firm_starts(snapshot)
    if not firm:
        return {}
    waiting = _find_waiting(among, firm)
    found = dict[str, PlannedStart]()
    for claim, start in firm.items():
        if claim in waiting:
            there = renumber_start(start, snapshot.cards)
            if there is not None:
                found[claim] = there
    # By the claim's name too: two promises of one instant must have one order in every host.
    return dict(sorted(found.items(), key=lambda one: (one[1].at_ns, one[0])))


def _find_waiting(
    waiting: Iterable[WaitingClass], claims: Iterable[str]
) -> dict[str, WaitingClass]:
    """By claim the class in which it still waits, which may be another one than it was."""
    found = dict[str, WaitingClass]()
    wanted = frozenset(claims)
    for one in waiting:
        names = one.job_ids if one.gang is None else (one.gang.id,)
        if not wanted.isdisjoint(names):
            found.update((name, one) for name in names if name in wanted)
    return found


def renumber_start(start: PlannedStart, cards: CardTable) -> PlannedStart | None:
    """Return the start with the present card numbers; None where one of its cards is gone."""
    rows = start.rows
    # The usual case, without a dictionary of all cards: a pool's cards rarely change.
    if all(
        row < len(cards) and cards.uuids[row] == name
        for row, name in zip(rows, start.devices, strict=True)
    ):
        return start
    number = dict(zip(cards.uuids, range(len(cards)), strict=True))
    if any(name not in number for name in start.devices):
        return None
    return replace(start, rows=tuple(number[name] for name in start.devices))


def make_promise(start: PlannedStart, taken: SeatAmounts, cards: CardTable) -> PlannedStart:
    """Return the start with all that the next snapshot must know of it."""
    hosts = list[tuple[str, int, int]]()
    for node, cpu, size in zip(
        taken.nodes.tolist(), taken.cpu_milli.tolist(), taken.host_bytes.tolist(), strict=True
    ):
        if cpu or size:
            hosts.append((cards.nodes[node], cpu, size))
    # Names and not numbers: a node that comes or goes renumbers the rows of the next snapshot.
    return replace(
        start, firm=True, hosts=tuple(hosts), devices=tuple(cards.uuids[row] for row in start.rows)
    )


def make_promised_seats(start: PlannedStart, cards: CardTable) -> SeatAmounts:
    """Make the seats that a promise keeps."""
    number = dict(zip(cards.nodes, range(len(cards.nodes)), strict=True)) if start.hosts else {}
    known = list[tuple[int, int, int]]()
    for name, cpu, size in start.hosts:
        if name in number:
            known.append((number[name], cpu, size))
    nodes = np.array(known, dtype=np.int64).reshape(-1, 3).T
    return make_seats_of_start(start)._replace(
        nodes=nodes[0], cpu_milli=nodes[1], host_bytes=nodes[2]
    )


class StandingPromises:
    """The promises of the last plan, held before any claim has its turn; each gives way to its own
    claim.
    """

    def __init__(
        self,
        promised: Promised,
        waiting: Iterable[WaitingClass],
        timeline: Timeline,
        quotas: QuotasOverTime,
    ) -> None:
        self._timeline = timeline
        self._quotas = quotas
        self._promised = promised
        self._holds: dict[str, Hold] = {}
        self._classes = _find_waiting(waiting, promised) if promised else {}
        for start in promised.values():
            self._add_hold(start)

    def release_hold(self, claim: str) -> bool:
        """Release what is held for the claim whose turn it is; return whether anything was."""
        hold = self._holds.pop(claim, None)
        if hold is None:
            return False
        self._timeline.release(hold)
        self._quotas.forget_start(claim)
        return True

    def restore_hold(self, start: PlannedStart) -> None:
        """Hold the promise again: its claim did not start."""
        self._add_hold(start)

    def list_untouched(self) -> dict[ClassKey, PlannedStart]:
        """Return the promises of claims that had no turn, or whose turn changed nothing."""
        return {self._classes[claim].key: self._promised[claim] for claim in self._holds}

    def _add_hold(self, start: PlannedStart) -> None:
        timeline = self._timeline
        waiting = self._classes[start.claim]
        # An instant that has passed is held from now on: the claim has its turn in this plan.
        since = max(start.at_ns, timeline.now_ns)
        until = timeline.compute_end(waiting.seconds, since)
        hold = Hold(make_promised_seats(start, timeline.cards), since, until)
        timeline.hold(hold)
        self._holds[start.claim] = hold
        firm = not waiting.preemptible
        self._quotas.keep_start(
            waiting.tenant, hold.taken, since, until, firm=firm, claim=start.claim
        )


class StartCertainty:
    """Whether a start is certain enough to be promised: it waits for no job with an estimated or
    late end.
    """

    def __init__(self, work: PlanningTransaction, now_ns: int) -> None:
        self._work = work
        self._now_ns = now_ns
        self._placed: list[Ints] = []
        self._reserved: Bools | None = None

    def record_placement(self, waiting: WaitingClass, taken: SeatAmounts) -> None:
        """Record that such a claim runs there from now on."""
        if waiting.guessed:
            self._placed.append(taken.rows)

    def is_certain(
        self, waiting: WaitingClass, start_ns: int, taken: SeatAmounts, usable: Bools
    ) -> bool:
        """Whether the start can be promised.

        Args:
            waiting: the class.
            start_ns: the start.
            taken: the cards that the claim would get then.
            usable: the cards that it could use.
        """
        if (
            waiting.preemptible
            or waiting.reservation is not None
            or start_ns - self._now_ns > HORIZON_NS
        ):
            return False
        if (
            taken.pieces
            or self._is_numa_bound(taken)
            or (usable & self._find_reservable_cards()).any()
        ):
            return False
        # A late end breaks the promise of a claim on the same node. Where quotas limit anything, a
        # job anywhere may hold back the quota that the promise counts on.
        unsure = self._list_uncertain_rows()
        if len(unsure) and self._work.quotas.tree.resources:
            return False
        node = self._work.free.cards.node
        return not np.isin(node[unsure], node[taken.rows]).any()

    def _is_numa_bound(self, taken: SeatAmounts) -> bool:
        """Whether NUMA nodes matter: on which of them capacity returns is not known in advance."""
        hosts = self._work.free.cards.hosts
        return (
            hosts is not None
            and hosts.numa is not None
            and bool(taken.cpu_milli.any() or taken.host_bytes.any())
        )

    def _find_reservable_cards(self) -> Bools:
        """Cards that a reservation could choose: it chooses anew in each plan."""
        if self._reserved is None:
            self._reserved = np.zeros(len(self._work.free.cards), dtype=np.bool_)
            for one in self._work.snapshot.reservations:
                self._reserved |= self._work.get_fit(one.shape).possible
        return self._reserved

    def _list_uncertain_rows(self) -> Ints:
        """Rows of the cards on which a job may run longer than expected."""
        roster = self._work.running_jobs
        rows = chain.from_iterable(job.rows for job in roster.list_guessed())
        guessed = np.fromiter(rows, dtype=np.int64)
        return np.concatenate([guessed, roster.ends.list_overdue_rows(self._now_ns), *self._placed])
