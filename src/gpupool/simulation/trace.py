"""What a simulation is fed with: who asks for what, when, and for how long it really runs.

One frozen form for every source; the readers of foreign tables and of the pool's own event log (`openb`, `eventlog`)
end in it, and the generator (`synthetic`) as well. Knows no scheduler.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpupool.base.errors import BadTrace
from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.model.claim import Shape, Sharing
from gpupool.model.partition import PartitionProfile
from gpupool.model.quota import Quota
from gpupool.simulation.columns import Row, rows

NS = 10**9
LONGEST_SECONDS = 10 * 366 * 86400
MOST_CARDS, MOST_MEMBERS = 100_000, 100_000
DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class Arrival:
    """One job, or `members` equal ones that start together, asked for at `at_ns` (from the start of the trace).

    `run_ns` is how long it really runs, which no scheduler is told; `limit_seconds` is what it says it needs at most.
    Arrivals with the same `gang` are roles of one gang: all of them start, or none.
    """

    job: str
    at_ns: int
    shape: Shape
    run_ns: int
    tenant: str = DEFAULT_TENANT
    priority: int = 0
    limit_seconds: int | None = None
    gang: str = ""
    members: int = 1
    preemptible: bool = False


@dataclass(frozen=True)
class Node:
    """One machine: its cards as (model, memory bytes); processors and main memory where they are known.

    `profiles`: by place in `cards`, those in partition mode and what they can be cut into.
    """

    name: str
    cards: tuple[tuple[str, int], ...]
    cpu_milli: int | None = None
    host_bytes: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[int, tuple[PartitionProfile, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """Arrivals, oldest first; the tenants' fair-share weights; the nodes and quotas, if the source has them."""

    name: str
    arrivals: tuple[Arrival, ...]
    weights: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    quotas: Mapping[str, Quota] = field(default_factory=dict)


REQUIRED = ("arrival_seconds", "gpu_milli", "seconds")
OPTIONAL = (
    "job",
    "cards",
    "gpu_memory_mib",
    "model",
    "sharing",
    "cpu_milli",
    "host_mib",
    "tenant",
    "weight",
    "priority",
    "limit_seconds",
    "gang",
    "members",
    "preemptible",
    "profile",
)
COLUMNS = (*REQUIRED, *OPTIONAL)


def read_csv(name: str, text: str) -> Trace:
    """A trace in our own columns (docs/reference/traces.md). Raises BadTrace."""
    arrivals: list[Arrival] = []
    weights: dict[str, int] = {}
    for row in rows(name, text, REQUIRED, OPTIONAL):
        arrivals.append(_arrival(row, len(arrivals)))
        weight = row.integer("weight", 1, 10**6, 1)
        if weights.setdefault(arrivals[-1].tenant, weight) != weight:
            known = weights[arrivals[-1].tenant]
            raise row.wrong("weight", f"tenant {arrivals[-1].tenant} has {weight} here and {known} above")
    return made(name, arrivals, weights)


def made(name: str, arrivals: Iterable[Arrival], weights: Mapping[str, int], nodes: tuple[Node, ...] = ()) -> Trace:
    """The trace, put in order of time; equal times keep the order they came in. Raises BadTrace."""
    ordered = tuple(sorted(arrivals, key=lambda one: one.at_ns))
    if not ordered:
        raise BadTrace(f"{name} is empty", hint="a trace needs at least one job")
    _check_names(name, ordered)
    _check_gangs(name, ordered)
    return Trace(name, ordered, dict(weights), nodes)


def _check_names(name: str, arrivals: Iterable[Arrival]) -> None:
    seen: set[str] = set()
    for one in arrivals:
        if one.job in seen:
            raise BadTrace(f"{name}: two jobs are named {one.job}", hint="give every job a name of its own")
        seen.add(one.job)


def _check_gangs(name: str, arrivals: Iterable[Arrival]) -> None:
    firsts: dict[str, Arrival] = {}
    for one in arrivals:
        first = firsts.setdefault(one.gang, one) if one.gang else one
        if (one.at_ns, one.tenant, one.priority) != (first.at_ns, first.tenant, first.priority):
            raise BadTrace(
                f"{name}: {one.job} and {first.job} are roles of the gang {one.gang} and differ in"
                " arrival, tenant or priority",
                hint="a gang arrives as one",
            )


def write_csv(trace: Trace) -> str:
    """The trace in our own columns: what `read_csv` reads back. Without partitions the last column is left out."""
    width = len(COLUMNS) if any(one.shape.profile for one in trace.arrivals) else len(COLUMNS) - 1
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS[:width])
    for one in trace.arrivals:
        writer.writerow(_cells(one, trace.weights.get(one.tenant, 1))[:width])
    return out.getvalue()


def _cells(one: Arrival, weight: int) -> tuple[object, ...]:
    shape = one.shape
    return (
        _seconds(one.at_ns),
        shape.gpu_milli if shape.profile is None else "",
        _seconds(one.run_ns),
        one.job,
        shape.count,
        (shape.memory_bytes or 0) // MIB or "",
        shape.model or "",
        "" if shape.sharing is Sharing.FIXED else shape.sharing,
        shape.cpu_milli or "",
        shape.host_bytes // MIB or "",
        one.tenant,
        weight,
        one.priority,
        one.limit_seconds or "",
        one.gang,
        one.members,
        int(one.preemptible),
        shape.profile or "",
    )


def _seconds(span_ns: int) -> str:
    seconds, rest = divmod(span_ns, NS)
    return f"{seconds}.{rest:09d}".rstrip("0").rstrip(".")


def _arrival(row: Row, number: int) -> Arrival:
    limit = row.integer("limit_seconds", 0, LONGEST_SECONDS, 0)
    return Arrival(
        job=row.text("job", f"job-{number:06d}"),
        at_ns=row.scaled("arrival_seconds", NS, 0, LONGEST_SECONDS),
        shape=_shape(row),
        run_ns=max(1, row.scaled("seconds", NS, 0, LONGEST_SECONDS)),
        tenant=row.text("tenant", DEFAULT_TENANT),
        priority=row.integer("priority", -1000, 1000, 0),
        limit_seconds=limit or None,
        gang=row.text("gang"),
        members=row.integer("members", 1, MOST_MEMBERS, 1),
        preemptible=bool(row.integer("preemptible", 0, 1, 0)),
    )


def _shape(row: Row) -> Shape:
    profile = row.text("profile") or None
    if profile is not None:
        return _partition(row, profile)
    milli = row.integer("gpu_milli", 0, WHOLE)
    cards = row.integer("cards", 0, MOST_CARDS, 1 if milli else 0)
    sharing = row.text("sharing", Sharing.FIXED)
    if sharing not in [*Sharing]:
        raise row.wrong("sharing", f"{sharing!r} is none of {', '.join(Sharing)}")
    if bool(milli) != bool(cards):
        raise row.wrong("gpu_milli", f"{milli} on {cards} cards: both are 0 (no card), or neither is")
    size = row.integer("gpu_memory_mib", 0, GIB, 0) * MIB
    cpu, host = row.integer("cpu_milli", 0, 10**9, 0), row.integer("host_mib", 0, GIB, 0) * MIB
    return Shape(milli, size or None, cards, row.text("model") or None, (), Sharing(sharing), cpu, host)


def _partition(row: Row, profile: str) -> Shape:
    """A partition: how much it is of a card, the nodes say (`partitioned.resolved`)."""
    for column in ("gpu_milli", "gpu_memory_mib"):
        if row.text(column) not in ("", "0"):
            raise row.wrong(column, f"a partition ({profile}) has the size of its profile: leave it empty")
    if row.text("sharing", Sharing.FIXED) != Sharing.FIXED:
        raise row.wrong("sharing", f"a partition ({profile}) is its holder's alone: leave it empty")
    cpu, host = row.integer("cpu_milli", 0, 10**9, 0), row.integer("host_mib", 0, GIB, 0) * MIB
    count = row.integer("cards", 1, MOST_CARDS, 1)
    return Shape(0, None, count, row.text("model") or None, cpu_milli=cpu, host_bytes=host, profile=profile)
