"""Who is owed seats: somebody was told to leave for it, so it goes before every other claim of its priority.

A job's work is lost for one claim and must not serve another that merely stands lower in the fair share. So the claim
has the first turn of its priority until it sits, has ended, or a while after the last one left for it. Its seats are
not named: each cycle it finds them again among what is free and what is being left, and takes better ones if there are.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import replace

from gpupool.scheduling.snapshot import Snapshot, Waiting

KEPT_NS = 60 * 10**9
"""So long after the last one has left: a claim that finds no seat in that time waits its turn like others."""

_NEVER = 2**63 - 1


class Owed:
    """What hosts remember of it between snapshots; claims are jobs, or gangs by id."""

    def __init__(self) -> None:
        self._leaving: dict[str, str] = {}
        """By job that was told to leave, for whom."""
        self._until: dict[str, int] = {}

    def told(self, job: str, claim: str) -> None:
        self._leaving[job] = claim
        self._until[claim] = _NEVER

    def left(self, job: str, now_ns: int) -> None:
        """The job holds nothing any more."""
        claim = self._leaving.pop(job, "")
        if claim in self._until and claim not in self._leaving.values():
            self._until[claim] = now_ns + KEPT_NS

    def settle(self, claim: str) -> None:
        """It sits, has ended, or asks for something else."""
        self._until.pop(claim, None)

    def remember(self, told: Iterable[tuple[str, str]], still: Container[tuple[str, str]], now_ns: int) -> None:
        """What was written down of claims not known here, as (job, claim); who left did so now at the latest.

        The time in which nobody looked is not counted against a claim.
        """
        unknown = [pair for pair in told if pair[1] not in self._until]
        for job, claim in unknown:
            self.told(job, claim)
        for job, claim in unknown:
            if (job, claim) not in still:
                self.left(job, now_ns)

    def names(self, now_ns: int) -> tuple[str, ...]:
        """In the order in which others were first told to leave for them."""
        return tuple(claim for claim, until in self._until.items() if now_ns < until)


def claim_of(waiting: Waiting, head: int) -> str:
    """Whom others leave for: the gang, or the job whose turn it is."""
    return waiting.heads[head] if waiting.gang is None else waiting.gang.id


def owed_first(snapshot: Snapshot, owed: Collection[str], at: Iterable[int] | None = None) -> Snapshot:
    """With those who are owed as the first heads of their classes; `at`: numbers of the classes that may have them."""
    if not owed:
        return snapshot
    names, waiting = frozenset(owed), list(snapshot.waiting)
    changed = False
    for number in range(len(waiting)) if at is None else at:
        first = _owed_first(waiting[number], names)
        changed = changed or first is not waiting[number]
        waiting[number] = first
    return replace(snapshot, waiting=tuple(waiting)) if changed else snapshot


def _owed_first(waiting: Waiting, owed: frozenset[str]) -> Waiting:
    if waiting.gang is not None or owed.isdisjoint(waiting.heads):
        return waiting
    order = sorted(range(len(waiting.heads)), key=lambda n: waiting.heads[n] not in owed)
    if order == list(range(len(order))):
        return waiting
    ages = tuple(waiting.heads_ns[n] for n in order) if waiting.heads_ns else ()
    return replace(waiting, heads=tuple(waiting.heads[n] for n in order), heads_ns=ages)
