"""Define the trace, the one input of every simulation, and read and write it as CSV.

A trace says which tenant asks for what, when, and for how long each job really runs. The readers
of other sources (`openb`, `eventlog`) and the generator (`synthetic`) all build it. This module
knows no scheduler. Columns: docs/reference/traces.md.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpupool.base.errors import BadTrace
from gpupool.base.units import GIB, MIB, NANOS_PER_SECOND, WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.partition import PartitionProfile
from gpupool.model.quota import Quota
from gpupool.simulation.traces.columns import TableRow, read_rows

#: Ten years: longer times are mistaken units (milliseconds), and nanoseconds stay within 64 bits.
LONGEST_SECONDS = 10 * 366 * 86400
#: Bounds of one job, so that a mistyped cell is refused and does not fill the memory.
MOST_CARDS = 100_000
MOST_MEMBERS = 100_000
#: Tenant of jobs whose row names none, as in a pool without tenants.
DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class JobArrival:
    """One job, or `members` equal jobs that start together.

    Arrivals with the same `gang` are roles of one gang: all of them start, or none.

    Attributes:
        at_ns: when it is submitted, from the start of the trace.
        run_ns: how long it really runs; the scheduler never learns it before the end.
        limit_seconds: the longest run that the job declares.
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
class TraceNode:
    """One machine of the simulated pool.

    Attributes:
        cards: model and memory in bytes of each card.
        cpu_milli: thousandths of processors; None where the source does not say.
        host_bytes: main memory; None where the source does not say.
        profiles: by place in `cards`, what a card in partition mode can be cut into.
    """

    name: str
    cards: tuple[tuple[str, int], ...]
    cpu_milli: int | None = None
    host_bytes: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[int, tuple[PartitionProfile, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkloadTrace:
    """Arrivals, oldest first, with the tenants' fair-share weights.

    `nodes` and `quotas` are empty where the source has none, as our own CSV.
    """

    name: str
    arrivals: tuple[JobArrival, ...]
    weights: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[TraceNode, ...] = ()
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


def read_csv(name: str, text: str) -> WorkloadTrace:
    """Read a trace in our own columns.

    Raises:
        BadTrace: naming the line and the column.
    """
    arrivals: list[JobArrival] = []
    weights: dict[str, int] = {}
    for row in read_rows(name, text, REQUIRED, OPTIONAL):
        arrival = _read_arrival(row, len(arrivals))
        arrivals.append(arrival)
        weight = row.read_integer("weight", 1, 10**6, 1)
        # A weight belongs to the tenant, not to the job: two rows that differ are a mistake, and
        # taking either of them would silently change every figure of fairness.
        known = weights.setdefault(arrival.tenant, weight)
        if known != weight:
            raise row.refuse_cell(
                "weight", f"tenant {arrival.tenant} has {weight} here and {known} above"
            )
    return build_trace(name, arrivals, weights)


def build_trace(
    name: str,
    arrivals: Iterable[JobArrival],
    weights: Mapping[str, int],
    nodes: tuple[TraceNode, ...] = (),
) -> WorkloadTrace:
    """Build a trace in order of time; equal times keep the order they came in.

    Raises:
        BadTrace: for no arrival, a job name used twice, or roles of a gang that disagree.
    """
    ordered = tuple(sorted(arrivals, key=lambda arrival: arrival.at_ns))
    if not ordered:
        raise BadTrace(f"{name} is empty", hint="a trace needs at least one job")
    _check_names(name, ordered)
    _check_gangs(name, ordered)
    return WorkloadTrace(name, ordered, dict(weights), nodes)


def _check_names(name: str, arrivals: Iterable[JobArrival]) -> None:
    # A replay keeps its jobs by name, and checkers match lines of a record to claims by name.
    known: set[str] = set()
    for arrival in arrivals:
        if arrival.job in known:
            raise BadTrace(
                f"{name}: two jobs are named {arrival.job}", hint="give every job a name of its own"
            )
        known.add(arrival.job)


def _check_gangs(name: str, arrivals: Iterable[JobArrival]) -> None:
    firsts: dict[str, JobArrival] = {}
    for arrival in arrivals:
        first = firsts.setdefault(arrival.gang, arrival) if arrival.gang else arrival
        if (arrival.at_ns, arrival.tenant, arrival.priority) != (
            first.at_ns,
            first.tenant,
            first.priority,
        ):
            raise BadTrace(
                f"{name}: {arrival.job} and {first.job} are roles of the gang {arrival.gang} and"
                " differ in arrival, tenant or priority",
                hint="a gang arrives as one",
            )


def write_csv(trace: WorkloadTrace) -> str:
    """Write a trace in our own columns, so that `read_csv` reads the same trace back."""
    has_partitions = any(arrival.shape.profile for arrival in trace.arrivals)
    # `profile` is the last column. It is left out where no job names one, so that traces without
    # partitions, the shipped sample among them, keep their bytes.
    width = len(COLUMNS) if has_partitions else len(COLUMNS) - 1
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS[:width])
    for arrival in trace.arrivals:
        writer.writerow(_list_cells(arrival, trace.weights.get(arrival.tenant, 1))[:width])
    return out.getvalue()


def _list_cells(arrival: JobArrival, weight: int) -> tuple[object, ...]:
    """List the cells in the order of `COLUMNS`; a default is an empty cell."""
    shape = arrival.shape
    return (
        _format_seconds(arrival.at_ns),
        shape.gpu_milli if shape.profile is None else "",
        _format_seconds(arrival.run_ns),
        arrival.job,
        shape.count,
        (shape.memory_bytes or 0) // MIB or "",
        shape.model or "",
        "" if shape.sharing is SharingKind.FIXED else shape.sharing,
        shape.cpu_milli or "",
        shape.host_bytes // MIB or "",
        arrival.tenant,
        weight,
        arrival.priority,
        arrival.limit_seconds or "",
        arrival.gang,
        arrival.members,
        int(arrival.preemptible),
        shape.profile or "",
    )


def _format_seconds(span_ns: int) -> str:
    # By integers: a float of seconds loses nanoseconds after 104 days, and a trace that is
    # written and read again would then no longer be the same trace.
    seconds, rest = divmod(span_ns, NANOS_PER_SECOND)
    return f"{seconds}.{rest:09d}".rstrip("0").rstrip(".")


def _read_arrival(row: TableRow, number: int) -> JobArrival:
    tenant = row.get_text("tenant", DEFAULT_TENANT)
    limit = row.read_integer("limit_seconds", 0, LONGEST_SECONDS, 0)
    return JobArrival(
        job=row.get_text("job", f"job-{number:06d}"),
        at_ns=row.read_scaled("arrival_seconds", NANOS_PER_SECOND, 0, LONGEST_SECONDS),
        shape=_read_shape(row, tenant),
        # At least 1 ns, which `checking.lists` computes as well: the two must agree on every end.
        run_ns=max(1, row.read_scaled("seconds", NANOS_PER_SECOND, 0, LONGEST_SECONDS)),
        tenant=tenant,
        priority=row.read_integer("priority", -1000, 1000, 0),
        limit_seconds=limit or None,
        gang=row.get_text("gang"),
        members=row.read_integer("members", 1, MOST_MEMBERS, 1),
        preemptible=bool(row.read_integer("preemptible", 0, 1, 0)),
    )


def _read_shape(row: TableRow, tenant: str) -> Shape:
    profile = row.get_text("profile") or None
    if profile is not None:
        return _read_partition(row, profile)
    milli = row.read_integer("gpu_milli", 0, WHOLE)
    cards = row.read_integer("cards", 0, MOST_CARDS, 1 if milli else 0)
    sharing = row.get_text("sharing", SharingKind.FIXED)
    if sharing not in [*SharingKind]:
        raise row.refuse_cell("sharing", f"{sharing!r} is none of {', '.join(SharingKind)}")
    if bool(milli) != bool(cards):
        raise row.refuse_cell(
            "gpu_milli", f"{milli} on {cards} cards: both are 0 (no card), or neither is"
        )
    memory_bytes = row.read_integer("gpu_memory_mib", 0, GIB, 0) * MIB
    return Shape(
        gpu_milli=milli,
        memory_bytes=memory_bytes or None,
        count=cards,
        model=row.get_text("model") or None,
        sharing=SharingKind(sharing),
        cpu_milli=row.read_integer("cpu_milli", 0, 10**9, 0),
        host_bytes=row.read_integer("host_mib", 0, GIB, 0) * MIB,
        # A trace has no accounts: an owner is a whole tenant.
        owner=tenant if sharing == SharingKind.MPS else "",
    )


def _read_partition(row: TableRow, profile: str) -> Shape:
    """Read a claim to a partition.

    Its size stays open here: the profile's size is known from the nodes that publish it
    (`profile_resolution.resolve_trace`).
    """
    for column in ("gpu_milli", "gpu_memory_mib"):
        if row.get_text(column) not in ("", "0"):
            raise row.refuse_cell(
                column, f"a partition ({profile}) has the size of its profile: leave it empty"
            )
    if row.get_text("sharing", SharingKind.FIXED) != SharingKind.FIXED:
        raise row.refuse_cell(
            "sharing", f"a partition ({profile}) is its holder's alone: leave it empty"
        )
    cpu_milli = row.read_integer("cpu_milli", 0, 10**9, 0)
    host_bytes = row.read_integer("host_mib", 0, GIB, 0) * MIB
    count = row.read_integer("cards", 1, MOST_CARDS, 1)
    return Shape(
        0,
        None,
        count,
        row.get_text("model") or None,
        cpu_milli=cpu_milli,
        host_bytes=host_bytes,
        profile=profile,
    )
