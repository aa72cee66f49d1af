"""A pool's log beside a replay of it: which jobs started when and where they did, and which would not have.

The replay lives the whole log from its first event, so that the pool is as full as it was. From the first other
decision on the two pools differ, and what comes later may follow from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from gpupool.base.errors import BadTrace
from gpupool.simulation.decisions import COLUMNS
from gpupool.simulation.eventlog import Log, Start
from gpupool.simulation.trace import NS, Trace

#: Starts that are less apart count as one instant: a pool takes a moment to hear of an end.
NEAR_NS = NS

SAME, ELSEWHERE, EARLIER, LATER, NEVER = "same", "elsewhere", "earlier", "later", "never"
VERDICTS = (SAME, ELSEWHERE, EARLIER, LATER, NEVER)
"""`elsewhere`: at the same instant on other cards; `never`: the replay ends, or refuses it, before it starts."""


@dataclass(frozen=True)
class Compared:
    """One job; instants are those of the log."""

    job: str
    tenant: str
    submitted_ns: int
    logged: Start
    replayed: Start | None
    verdict: str
    reason: str
    """Of the replay's placement."""


@dataclass(frozen=True)
class Retrospect:
    """All jobs of the time that was asked for, in the order of their starts in the log."""

    policy: str
    jobs: tuple[Compared, ...]

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.verdict for one in self.jobs)

    @property
    def different(self) -> list[Compared]:
        return [one for one in self.jobs if one.verdict != SAME]


def until(log: Log, to_ns: int | None) -> Trace:
    """The trace without jobs that were submitted later. Raises BadTrace where none is left."""
    kept = [one for one in log.trace.arrivals if to_ns is None or log.begin_ns + one.at_ns < to_ns]
    if not kept:
        raise BadTrace(f"{log.trace.name} tells of no job that was submitted before then", hint="a later --to")
    return replace(log.trace, arrivals=tuple(kept))


def compare(policy: str, log: Log, trace: Trace, rows: Iterable[Sequence[object]], from_ns: int | None) -> Retrospect:
    """The decisions of a replay of `trace`, as `decisions` has them, beside those of the log.

    Only jobs that were submitted from then on are compared. Raises BadTrace where there are none.
    """
    first: dict[str, tuple[Start, str]] = {}
    for row in rows:
        cells = dict(zip(COLUMNS, map(str, row), strict=True))
        if cells["event"] == "placed" and cells["claim"] not in first:
            cards = tuple(sorted(map(int, cells["cards"].split())))
            at_ns = log.begin_ns + int(Decimal(cells["time"]) * NS)
            first[cells["claim"]] = Start(at_ns, cells["node"], cards), cells["reason"]
    found = []
    for one in trace.arrivals:
        names = [one.job] if one.members == 1 else [f"{one.job}.{number}" for number in range(one.members)]
        submitted_ns = log.begin_ns + one.at_ns
        for name in names if from_ns is None or submitted_ns >= from_ns else ():
            logged = log.starts.get(name)
            if logged is not None:
                known = replace(logged, at_ns=log.begin_ns + logged.at_ns)
                replayed, reason = first.get(name, (None, ""))
                verdict = _verdict(known, replayed)
                found.append(Compared(name, one.tenant, submitted_ns, known, replayed, verdict, reason))
    if not found:
        raise BadTrace(f"{trace.name} tells of no job of that time that was placed", hint="an earlier --from")
    found.sort(key=lambda job: (job.logged.at_ns, job.job))
    return Retrospect(policy, tuple(found))


def _verdict(logged: Start, replayed: Start | None) -> str:
    if replayed is None:
        return NEVER
    apart = replayed.at_ns - logged.at_ns
    if abs(apart) >= NEAR_NS:
        return LATER if apart > 0 else EARLIER
    return SAME if (logged.node, logged.cards) == (replayed.node, replayed.cards) else ELSEWHERE
