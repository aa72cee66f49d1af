"""Whether a claim could start if nothing ran: by the cards that are open, the quotas, and what is reserved.

Jobs end, so a claim that could start then waits for something that comes. One that could not waits for a person: who
guarantees less, lends more or adopts cards, or who submits it with another option. Both are told apart here by the
same cycle that places claims, on the same snapshot without jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from gpupool.model.quota import UNLIMITED, Amount
from gpupool.scheduling import wording_reach
from gpupool.scheduling.admit_gang import emptied
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import Run, cycle
from gpupool.scheduling.score_binpack import NAME as BINPACK
from gpupool.scheduling.snapshot import Expected, Snapshot, Waiting
from gpupool.scheduling.victims import PreemptionRules

SHORT_SECONDS = 3600
"""The time limit that is tried where none is given, or a longer one."""

_NOBODY = PreemptionRules(enabled=False)


class Cause(Enum):
    QUOTA = "quota"
    RESERVED = "reserved"
    CARDS = "cards"


@dataclass(frozen=True)
class Reach:
    """`cause` is None where it could start; `options` would let it start then, as the command line writes them."""

    cause: Cause | None = None
    sentence: str = ""
    options: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        return self.cause is None


def reach(snapshot: Snapshot, waiting: Waiting, now_ns: int) -> Reach:
    """Of the class's next claim, or its whole gang."""
    empty = without_jobs(snapshot, waiting)
    if _starts(empty, now_ns):
        return Reach()
    cause = _cause(empty, now_ns)
    if cause is Cause.CARDS:
        return Reach(cause)
    options = next((words for words, other in _others(empty.waiting[0]) if _starts(_with(empty, other), now_ns)), ())
    if cause is Cause.RESERVED:
        return Reach(cause, wording_reach.RESERVED, options)
    return Reach(cause, _kept(empty, now_ns), options)


def refused_by_quotas(snapshot: Snapshot, waiting: Waiting, now_ns: int) -> Reach | None:
    """What to tell a claim that no end of a job would let start, as the quotas are now; None where one could."""
    if not (snapshot.cohorts or any(view.quota.limits for view in snapshot.tenants.values())):
        return None
    empty = without_jobs(snapshot, waiting)
    if not _kept(empty, now_ns):
        return None
    found = reach(snapshot, waiting, now_ns)
    return found if found.cause is Cause.QUOTA else None


def without_jobs(snapshot: Snapshot, waiting: Waiting) -> Snapshot:
    """The pool as it is without what runs, moves or was promised, and with nobody else in the queue."""
    heads = waiting.gang.members if waiting.gang is not None else (waiting.heads or ("it",))[:1]
    alone = replace(waiting, heads=heads, heads_ns=(), count=len(heads))
    return replace(
        snapshot,
        cards=replace(emptied(snapshot.cards), status=snapshot.cards.status),
        tenants={name: replace(view, held=Amount()) for name, view in snapshot.tenants.items()},
        waiting=(alone,),
        running=(),
        kept=(),
        owed=(),
        promised={},
        policy=BINPACK,
        expected=Expected(),
    )


def _kept(empty: Snapshot, now_ns: int) -> str:
    """What is kept from the claim; empty where the reason for its waiting says it already."""
    (waiting,) = empty.waiting
    run = Run(empty, now_ns, Board(empty), _NOBODY)
    run.work.quotas.firm = not waiting.preemptible
    said = run.work.quotas.rejection(waiting.tenant, waiting.shape, run.least(waiting))
    if said is not None:
        return said.sentence
    return "" if run.work.quotas.closed(waiting.tenant) is None else wording_reach.WHOLE_NODES


def _starts(empty: Snapshot, now_ns: int) -> bool:
    return bool(cycle(empty, now_ns, limit=1, rules=_NOBODY, said=False).placements)


def _with(empty: Snapshot, waiting: Waiting) -> Snapshot:
    return replace(empty, waiting=(waiting,))


def _cause(empty: Snapshot, now_ns: int) -> Cause:
    views = {name: replace(view, quota=UNLIMITED, cohort=None) for name, view in empty.tenants.items()}
    unlimited = replace(empty, tenants=views, cohorts={})
    if _starts(unlimited, now_ns):
        return Cause.QUOTA
    free_of_reservations = replace(empty, reservations=())
    if _starts(free_of_reservations, now_ns) or _starts(replace(unlimited, reservations=()), now_ns):
        return Cause.RESERVED
    return Cause.CARDS


def _others(waiting: Waiting) -> Iterator[tuple[tuple[str, ...], Waiting]]:
    """The same claim with other options, what changes least first."""
    limited = waiting.seconds is not None and waiting.seconds <= SHORT_SECONDS
    short = () if limited else (("--max-time", replace(waiting, seconds=SHORT_SECONDS)),)
    firm = () if waiting.preemptible else (("--preemptible", replace(waiting, preemptible=True)),)
    for word, other in (*firm, *short):
        yield (word,), other
    for (one, other), (two, _) in zip(firm, short, strict=False):
        yield (one, two), replace(other, seconds=SHORT_SECONDS)
