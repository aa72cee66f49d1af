"""Running jobs as idle ladders see them: a gang is one unit, and so is any other job."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.idleness.activity import ActivityBook
from gpupool.allocations.idleness.ladder import IdleAct, IdleProgress
from gpupool.allocations.idleness.policy import JobFacts, find_kind
from gpupool.allocations.idleness.tables import idle_states
from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import IS_LIVE, allocations, claims, jobs, seats
from gpupool.base.units import NANOS_PER_MILLISECOND, NANOS_PER_SECOND
from gpupool.fleet.tables import devices
from gpupool.metering.samples import LatestSample
from gpupool.model.job import JobState
from gpupool.model.suspension import AWAY, IDLE_RULE, SuspensionState
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.samples import JobSample

#: An older sample says nothing of a job: its agent is away.
FRESH_NS: Final = 60 * NANOS_PER_SECOND

_SEATED = (
    sa.select(
        jobs.c.id,
        jobs.c.public_id,
        jobs.c.name,
        jobs.c.tenant_id,
        jobs.c.project_id,
        jobs.c.user_id,
        jobs.c.gang_id,
        jobs.c.command,
        jobs.c.started_ns,
        jobs.c.saved_ns,
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
        users.c.name.label("user"),
        claims.c.idle_seconds,
        claims.c.sharing,
        claims.c.preemptible,
        claims.c.image,
        suspensions.c.state.label("suspension"),
        suspensions.c.beneficiary,
        suspensions.c.wanted_ns,
        suspensions.c.gpu_milli.label("away_milli"),
        suspensions.c.memory_bytes.label("away_bytes"),
        seats.c.gpu_milli,
        seats.c.memory_bytes,
        devices.c.model,
        devices.c.memory_bytes.label("card_bytes"),
        idle_states.c.job_id.label("state_id"),
        idle_states.c.since_ns,
        idle_states.c.counters,
        idle_states.c.act,
        idle_states.c.at_ns,
        idle_states.c.dry_run,
        idle_states.c.skip,
        idle_states.c.milli_before,
        idle_states.c.milli_after,
        idle_states.c.wait_ns,
        idle_states.c.keep_until_ns,
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(seats, seats.c.allocation_id == allocations.c.id)
    .join(devices, devices.c.id == seats.c.device_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(projects, projects.c.id == jobs.c.project_id)
    .join(users, users.c.id == jobs.c.user_id)
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .outerjoin(idle_states, idle_states.c.job_id == jobs.c.id)
    .where(
        IS_LIVE,
        jobs.c.state == JobState.RUNNING,
        jobs.c.stop_requested.is_(None),
        # Word for word the condition of the partial index on held allocations.
        allocations.c.state != sa.literal_column("'released'"),
    )
    .order_by(jobs.c.id, devices.c.idx)
)


@dataclass(frozen=True)
class IdleState:
    """The row of a unit: how far it is, and what it gave back."""

    since_ns: int
    counters: str
    act: IdleAct | None
    at_ns: int
    dry_run: bool
    skip: str
    milli_before: int | None
    milli_after: int | None
    wait_ns: int | None
    keep_until_ns: int | None

    @property
    def progress(self) -> IdleProgress:
        return IdleProgress(self.since_ns, self.act, self.at_ns)

    @property
    def must_grow(self) -> bool:
        """Whether its share is still small, though its job was active again."""
        return self.act is None and self.milli_before is not None


@dataclass(frozen=True)
class IdleUnit:
    """A running job with cards, or a gang, which its first member stands for.

    Attributes:
        members: row ids of all its jobs.
        names: their public ids.
        agrees: it may be suspended while idle (`--when-idle suspend`).
        milli: compute of each of its seats now; 0 while it is suspended.
        away_milli: what each seat had before it was suspended; 0: it is not.
        cards: number of seats.
    """

    row_id: int
    job: str
    name: str
    tenant_id: int
    tenant: str
    project: str
    user_id: int
    user: str
    facts: JobFacts
    members: tuple[int, ...]
    names: tuple[str, ...]
    started_ns: int
    saved_ns: int | None
    agrees: bool
    sharing: str
    preemptible: bool
    suspension: SuspensionState | None
    beneficiary: str | None
    wanted_ns: int | None
    milli: int
    memory_bytes: int
    away_milli: int
    cards: int
    model: str
    card_bytes: int
    state: IdleState | None

    @property
    def is_away(self) -> bool:
        return self.suspension in AWAY

    @property
    def is_gang(self) -> bool:
        return len(self.members) > 1

    @property
    def has_come_back(self) -> bool:
        """Whether it was suspended by its rule, and is on its cards again."""
        state = self.state
        return (
            state is not None
            and state.act in (IdleAct.SUSPEND, IdleAct.STOP)
            and not state.dry_run
            and not state.skip
            and self.suspension is None
        )


@dataclass(frozen=True)
class UnitActivity:
    """What is known of a unit's activity.

    Attributes:
        last_ns: when it was active last; None: not known, which is not idle.
        observed_ns: up to when that is known.
        counters: digest of its fence's counters; empty: they are not known.
    """

    last_ns: int | None
    observed_ns: int
    counters: str = ""


def read_units(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[IdleUnit]:
    """Read the units, those that were submitted first in front."""
    by_unit = defaultdict[tuple[bool, int], list[Any]](list)
    for row in connection.execute(_SEATED.where(*conditions)):
        key = (False, row.id) if row.gang_id is None else (True, row.gang_id)
        by_unit[key].append(row)
    return [_build_unit(rows) for rows in by_unit.values()]


def read_unit(connection: sa.Connection, unit: IdleUnit) -> IdleUnit | None:
    """Read a unit as it is now; None: its first job runs no more."""
    found = read_units(connection, jobs.c.id.in_(unit.members))
    return next((one for one in found if one.row_id == unit.row_id), None)


def _build_unit(rows: Sequence[Any]) -> IdleUnit:
    first = rows[0]
    members = {row.id: row.public_id for row in rows}
    kind = find_kind(
        first.command,
        is_gang=first.gang_id is not None,
        is_container=first.image is not None,
    )
    return IdleUnit(
        row_id=first.id,
        job=first.public_id,
        name=first.name,
        tenant_id=first.tenant_id,
        tenant=first.tenant,
        project=first.project,
        user_id=first.user_id,
        user=first.user,
        facts=JobFacts(first.tenant_id, first.project_id, kind),
        members=tuple(members),
        names=tuple(members.values()),
        started_ns=first.started_ns or 0,
        saved_ns=first.saved_ns,
        agrees=first.idle_seconds is not None,
        sharing=first.sharing,
        preemptible=first.preemptible,
        suspension=None if first.suspension is None else SuspensionState(first.suspension),
        beneficiary=first.beneficiary,
        wanted_ns=first.wanted_ns,
        milli=first.gpu_milli,
        memory_bytes=first.memory_bytes,
        away_milli=first.away_milli or 0,
        cards=len(rows),
        model=first.model,
        card_bytes=first.card_bytes,
        state=_build_state(first),
    )


def _build_state(row: Any) -> IdleState | None:
    if row.state_id is None:
        return None
    return IdleState(
        since_ns=row.since_ns,
        counters=row.counters,
        act=None if row.act is None else IdleAct(row.act),
        at_ns=row.at_ns,
        dry_run=row.dry_run,
        skip=row.skip,
        milli_before=row.milli_before,
        milli_after=row.milli_after,
        wait_ns=row.wait_ns,
        keep_until_ns=row.keep_until_ns,
    )


def measure_activity(
    unit: IdleUnit, samples: Mapping[str, LatestSample], book: ActivityBook, now_ns: int
) -> UnitActivity:
    """Measure when a unit was active last, by its fences and its streams."""
    streams = [at for name in unit.names if (at := book.find(name)) is not None]
    for name in unit.names:
        terminal_ns = _find_terminal_use(samples.get(name), unit.state)
        if terminal_ns is not None:
            streams.append(terminal_ns)
    floor = _find_floor(unit, book)
    if unit.is_away:
        return _measure_away(unit, streams, floor, now_ns)
    if unit.has_come_back:
        return UnitActivity(now_ns, now_ns)
    counters = _digest_counters(samples, unit.names)
    cards_ns = 0
    observed_ns = now_ns
    for name in unit.names:
        seen = samples.get(name)
        used_ns = None if seen is None else _find_use(seen, now_ns)
        if seen is None or used_ns is None:
            return UnitActivity(None, now_ns)
        cards_ns = max(cards_ns, used_ns)
        observed_ns = min(observed_ns, seen.at_ns)
    state = unit.state
    if state is not None and state.act is not None and state.counters == counters != "":
        # An agent that began anew counts from its own begin; the counters say that nothing was.
        cards_ns = min(cards_ns, state.since_ns)
    return UnitActivity(max(floor, cards_ns, *streams), observed_ns, counters)


def _find_floor(unit: IdleUnit, book: ActivityBook) -> int:
    """Return the instant before which the unit's streams are not known."""
    state = unit.state
    known_ns = book.began_ns if state is None or state.act is None else state.since_ns
    return max(unit.started_ns, known_ns)


def _measure_away(unit: IdleUnit, streams: Iterable[int], floor: int, now_ns: int) -> UnitActivity:
    if unit.beneficiary != IDLE_RULE or unit.wanted_ns is not None:
        # By hand or for a claim it holds nothing that a rule could give back; one that wants to work
        # waits for room.
        return UnitActivity(None, now_ns)
    return UnitActivity(max([floor, *streams]), now_ns)


def _find_use(seen: LatestSample, now_ns: int) -> int | None:
    """Find when the cards of a job worked last; None: not known."""
    sample = seen.sample
    if now_ns - seen.at_ns > FRESH_NS:
        return None
    if sample.idle_milliseconds is not None:
        return seen.at_ns - sample.idle_milliseconds * NANOS_PER_MILLISECOND
    # Without a fence nothing is known; with one the job works at this moment.
    return None if sample.cards is None else seen.at_ns


def _find_terminal_use(seen: LatestSample | None, state: IdleState | None) -> int | None:
    """Find when bytes last went through a job's terminal; None: not known, or before its step."""
    if seen is None or seen.sample.terminal_milliseconds is None:
        return None
    at_ns = seen.at_ns - seen.sample.terminal_milliseconds * NANOS_PER_MILLISECOND
    if state is not None and state.act is not None and at_ns < (state.since_ns + state.at_ns) // 2:
        # Of the bytes that the step counts from: how long a sample takes to come is never the same.
        return None
    return at_ns


def _digest_counters(samples: Mapping[str, LatestSample], names: Iterable[str]) -> str:
    """Digest the counters of a unit's fences; empty: one is not known."""
    digest = hashlib.sha256()
    for name in names:
        seen = samples.get(name)
        if seen is None or not seen.sample.cards:
            return ""
        digest.update(_write_counters(seen.sample).encode())
    return digest.hexdigest()


def _write_counters(sample: JobSample) -> str:
    cards = sorted(sample.cards or (), key=lambda card: card.uuid)
    parts = [f"{one.uuid} {one.launches} {one.gpu_nanoseconds} {one.used_bytes}" for one in cards]
    return f"{sample.job} {'; '.join(parts)}\n"
