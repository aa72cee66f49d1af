"""Compare a pool's log with a replay of it: which jobs start at the same time and place.

The replay plays the whole log from its first event, so that the pool is as full as it was. From the
first different decision on the two pools differ, and later differences may follow from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from gpupool.base.errors import BadTrace
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.simulation.replay.arrival_jobs import list_members
from gpupool.simulation.studies.decisions import COLUMNS
from gpupool.simulation.traces.eventlog import EventLog, LoggedStart
from gpupool.simulation.traces.trace import JobArrival, WorkloadTrace

#: Starts that are less apart count as one instant: a pool learns of an end a moment later.
NEAR_NS = NANOS_PER_SECOND

SAME = "same"
ELSEWHERE = "elsewhere"
EARLIER = "earlier"
LATER = "later"
NEVER = "never"
#: `elsewhere`: at the same instant on other cards; `never`: the replay ends, or refuses it, before
#: it starts.
VERDICTS = (SAME, ELSEWHERE, EARLIER, LATER, NEVER)


@dataclass(frozen=True)
class JobComparison:
    """One job; instants are those of the log."""

    job: str
    tenant: str
    submitted_ns: int
    logged: LoggedStart
    replayed: LoggedStart | None
    verdict: str
    #: Of the replay's placement.
    reason: str


@dataclass(frozen=True)
class Retrospect:
    """All jobs of the requested time, in the order of their starts in the log."""

    policy: str
    jobs: tuple[JobComparison, ...]

    @property
    def verdict_counts(self) -> Counter[str]:
        return Counter(one.verdict for one in self.jobs)

    @property
    def differing_jobs(self) -> list[JobComparison]:
        return [one for one in self.jobs if one.verdict != SAME]


def cut_trace(log: EventLog, to_ns: int | None) -> WorkloadTrace:
    """Cut off the jobs that were submitted at `to_ns` or later. Raises BadTrace if none is left."""
    kept: list[JobArrival] = []
    for arrival in log.trace.arrivals:
        if to_ns is None or log.begin_ns + arrival.at_ns < to_ns:
            kept.append(arrival)
    if not kept:
        raise BadTrace(
            f"{log.trace.name} tells of no job that was submitted before then", hint="a later --to"
        )
    return replace(log.trace, arrivals=tuple(kept))


def compare_starts(
    policy: str,
    log: EventLog,
    trace: WorkloadTrace,
    rows: Iterable[Sequence[object]],
    from_ns: int | None,
) -> Retrospect:
    """Compare the decisions of a replay of `trace` with those of the log.

    Args:
        policy: The policy of the replay.
        log: The pool's log.
        trace: What the replay played.
        rows: The decisions of the replay, as `decisions` has them.
        from_ns: Only jobs that were submitted from then on are compared.

    Raises:
        BadTrace: where there are none.
    """
    replayed = _list_replayed_starts(log, rows)
    jobs: list[JobComparison] = []
    for arrival in trace.arrivals:
        submitted_ns = log.begin_ns + arrival.at_ns
        if from_ns is not None and submitted_ns < from_ns:
            continue
        for name in list_members(arrival):
            logged = log.starts.get(name)
            # A job that the pool never started has nothing to be compared with.
            if logged is None:
                continue
            known = replace(logged, at_ns=log.begin_ns + logged.at_ns)
            start, reason = replayed.get(name, (None, ""))
            verdict = _judge_start(known, start)
            jobs.append(
                JobComparison(name, arrival.tenant, submitted_ns, known, start, verdict, reason)
            )
    if not jobs:
        raise BadTrace(
            f"{trace.name} tells of no job of that time that was placed", hint="an earlier --from"
        )
    jobs.sort(key=lambda job: (job.logged.at_ns, job.job))
    return Retrospect(policy, tuple(jobs))


def _list_replayed_starts(
    log: EventLog, rows: Iterable[Sequence[object]]
) -> dict[str, tuple[LoggedStart, str]]:
    """Return the first start of each job in the replay, and the reason of its placement."""
    starts: dict[str, tuple[LoggedStart, str]] = {}
    for row in rows:
        cells = dict(zip(COLUMNS, map(str, row), strict=True))
        if cells["event"] != "placed" or cells["claim"] in starts:
            continue
        cards = tuple(sorted(map(int, cells["cards"].split())))
        # Decimal: a float of seconds loses nanoseconds of a log's instants.
        at_ns = log.begin_ns + int(Decimal(cells["time"]) * NANOS_PER_SECOND)
        starts[cells["claim"]] = LoggedStart(at_ns, cells["node"], cards), cells["reason"]
    return starts


def _judge_start(logged: LoggedStart, replayed: LoggedStart | None) -> str:
    if replayed is None:
        return NEVER
    apart = replayed.at_ns - logged.at_ns
    if abs(apart) >= NEAR_NS:
        return LATER if apart > 0 else EARLIER
    return SAME if (logged.node, logged.cards) == (replayed.node, replayed.cards) else ELSEWHERE
