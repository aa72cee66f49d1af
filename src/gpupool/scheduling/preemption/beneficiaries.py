"""Beneficiaries: claims for which victims were evicted; they go before other claims of their
priority.

A job's work is lost for one claim and must not serve another claim that merely stands lower in the
fair share. So the beneficiary has the first turn of its priority until it is placed, has ended, or
a minute after the last victim left. Its seats have no names: each cycle finds them again among what
is free and what is being left, and takes better ones if there are.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import replace

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot

#: So long after the last victim left the beneficiary keeps its turn: 60 s.
TURN_KEPT_NS = 60 * NANOS_PER_SECOND

_NEVER = 2**63 - 1

#: Sorts claims of whose victims none has left behind all others.
_NEVER_LEFT = -1


class EvictionBeneficiaries:
    """What hosts remember of beneficiaries between snapshots; claims are jobs, or gangs by id."""

    def __init__(self) -> None:
        #: By evicted job, its beneficiary.
        self._leaving: dict[str, str] = {}
        #: By beneficiary the instant in nanoseconds at which its first turn is over, in the order
        #: of first evictions.
        self._until: dict[str, int] = {}
        #: By beneficiary the instant in nanoseconds at which a victim of it left last.
        self._left_ns: dict[str, int] = {}

    def add_eviction(self, job: str, claim: str) -> None:
        """Record that the job is evicted for the claim."""
        self._leaving[job] = claim
        self._until[claim] = _NEVER

    def record_departure(self, job: str, now_ns: int) -> None:
        """Record that the job holds nothing any more."""
        claim = self._leaving.pop(job, "")
        if claim in self._until:
            self._left_ns[claim] = now_ns
        if claim in self._until and claim not in self._leaving.values():
            # The minute starts with the last victim: each of them may use its whole grace time.
            self._until[claim] = now_ns + TURN_KEPT_NS

    def remove_claim(self, claim: str) -> None:
        """Remove a claim that is placed, has ended, or asks for something else."""
        self._until.pop(claim, None)
        self._left_ns.pop(claim, None)

    def restore_evictions(
        self, told: Iterable[tuple[str, str]], still: Container[tuple[str, str]], now_ns: int
    ) -> None:
        """Restore stored evictions of claims that are not known here.

        The time in which the host did not run is not counted against a claim.

        Args:
            told: evictions as (job, claim).
            still: those whose job has not left; all others left now at the latest.
            now_ns: the present instant.
        """
        unknown = [pair for pair in told if pair[1] not in self._until]
        # All evictions first: a departure asks whether another victim of the same claim still runs.
        for job, claim in unknown:
            self.add_eviction(job, claim)
        for job, claim in unknown:
            if (job, claim) not in still:
                self.record_departure(job, now_ns)

    def list_claims(self, now_ns: int) -> tuple[str, ...]:
        """List the beneficiaries in the order of their turns.

        The one whose victims left last comes first; those that departed at one instant, and those
        of whose victims none has left, stand in the order of their first evictions.
        """
        # What is free now was most likely left for the latest. An earlier one that has not sat yet
        # lost its seats to a claim of higher priority, and would take those of the latest in turn.
        claims = [claim for claim, until in self._until.items() if now_ns < until]
        claims.sort(key=lambda claim: self._left_ns.get(claim, _NEVER_LEFT), reverse=True)
        return tuple(claims)


def name_claim(waiting: WaitingClass, head: int) -> str:
    """Return the beneficiary's name: the gang, or the job whose turn it is."""
    return waiting.job_ids[head] if waiting.gang is None else waiting.gang.id


def move_beneficiaries_first(
    snapshot: Snapshot, owed: Collection[str], at: Iterable[int] | None = None
) -> Snapshot:
    """Return the snapshot with beneficiaries as the first heads of their classes.

    Args:
        snapshot: the pool and its queue.
        owed: the beneficiaries.
        at: numbers of the classes that may have them; None: all.
    """
    if not owed:
        return snapshot
    names = frozenset(owed)
    waiting = list(snapshot.waiting)
    changed = False
    for number in range(len(waiting)) if at is None else at:
        first = _move_heads_first(waiting[number], names)
        changed = changed or first is not waiting[number]
        waiting[number] = first
    return replace(snapshot, waiting=tuple(waiting)) if changed else snapshot


def _move_heads_first(waiting: WaitingClass, owed: frozenset[str]) -> WaitingClass:
    if waiting.gang is not None or owed.isdisjoint(waiting.job_ids):
        return waiting
    # Stable: among beneficiaries, and among the others, heads stay in the order of their age.
    order = sorted(range(len(waiting.job_ids)), key=lambda n: waiting.job_ids[n] not in owed)
    # The same object, so that caches that know a class by identity (`class_columns`) keep it.
    if order == list(range(len(order))):
        return waiting
    ages = tuple(waiting.submitted_ns[n] for n in order) if waiting.submitted_ns else ()
    return replace(waiting, job_ids=tuple(waiting.job_ids[n] for n in order), submitted_ns=ages)
