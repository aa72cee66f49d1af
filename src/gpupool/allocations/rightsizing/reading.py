"""Reads families: their measured runs, how many were not measured, and what runs now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.store.advice_rows import PROPOSED
from gpupool.allocations.store.advice_tables import advice_runs
from gpupool.allocations.store.tables import (
    IS_LIVE,
    allocations,
    arrays,
    claims,
    jobs,
    launches,
    seats,
)
from gpupool.base.units import MIB, NANOS_PER_SECOND, WHOLE
from gpupool.fleet.tables import devices
from gpupool.metering.job_use.tables import use_histograms
from gpupool.model.claim import SharingKind
from gpupool.model.device import CardMode
from gpupool.model.job import JobState
from gpupool.model.partition import read_profiles
from gpupool.rightsizing.families import MADE_LETTERS, FamilyKey, find_pattern
from gpupool.rightsizing.histogram import UseHistogram
from gpupool.rightsizing.offers import CardOffer
from gpupool.rightsizing.runs import MeasuredRun, RequestedShare
from gpupool.tenancy.tables import projects, tenants, users

#: Runs that one answer reads at most, the newest: about 8 MB.
MOST_RUNS: Final = 20_000

# `strip_made_end` in SQL. The constants are literals, since PostgreSQL groups by no parameter.
_ZERO: Final = sa.literal_column("0", sa.Integer)
_ONE: Final = sa.literal_column("1", sa.Integer)
_LETTERS: Final = sa.literal_column(str(MADE_LETTERS), sa.Integer)
#: The first member of a job's array: the pool made the array's name of its id.
_FIRST: Final = jobs.alias("first_member")
_NAME: Final = sa.func.coalesce(jobs.c.array_name, jobs.c.name)
#: Null for a gang, whose name stays as it is.
_NAMED_AFTER: Final = sa.case(
    (jobs.c.array_name.is_(None), jobs.c.public_id), else_=_FIRST.c.public_id
)
_AT = sa.func.length(_NAME) - _LETTERS
_LAST = sa.func.substr(_NAMED_AFTER, sa.func.length(_NAMED_AFTER) - _LETTERS + _ONE)
_END = sa.literal_column("'-'", sa.String).concat(_LAST)
_FAMILY_NAME = sa.case(
    (sa.func.substr(_NAME, _AT) == _END, sa.func.substr(_NAME, _ONE, _AT - _ONE)),
    else_=_NAME,
)
#: Columns by which the family of a job is found.
OWNER = (
    tenants.c.name.label("tenant"),
    projects.c.name.label("project"),
    users.c.name.label("user"),
    _FAMILY_NAME.label("family_name"),
)

#: Whether a job starts with a fence, after `join_launch`: its own row says so, or its array's.
IS_FENCED: Final = sa.func.coalesce(
    launches.c.spec["fence"].as_boolean(), arrays.c.launch["fence"].as_boolean(), sa.true()
)


@dataclass(frozen=True)
class LiveRun:
    """A running job: what it holds of each card."""

    job: str
    name: str
    gpu_milli: int
    memory_bytes: int
    card_bytes: int
    profile: str | None
    sharing: str
    #: What a policy proposes for it; None: nothing.
    proposed_milli: int | None = None
    proposed_bytes: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it has its card whole: no fence runs in it that a resize could change."""
        return self.gpu_milli == WHOLE and self.memory_bytes // MIB == self.card_bytes // MIB

    @property
    def promises_compute(self) -> bool:
        return SharingKind(self.sharing).promises_compute


@dataclass
class FamilyRuns:
    """What is known of one family in a time."""

    runs: list[MeasuredRun] = field(default_factory=list)
    unmeasured: int = 0
    live: list[LiveRun] = field(default_factory=list)
    #: Of the latest measured run.
    sharing: str = ""
    preemptible: bool = False
    card_bytes: int = 0


Families = dict[FamilyKey, FamilyRuns]


def read_families(
    connection: sa.Connection, condition: sa.ColumnElement[bool], since_ns: int
) -> Families:
    """Read the families with a run that was measured, or began, since an instant.

    Args:
        connection: to the database.
        condition: on `jobs`, of what the caller may see.
        since_ns: the instant.
    """
    found: Families = {}
    for row in reversed(connection.execute(_select_measured(condition, since_ns)).all()):
        family = _find_family(found, row)
        family.runs.append(_build_run(row))
        family.sharing = row.sharing
        family.preemptible = row.preemptible
        family.card_bytes = row.card_bytes
    for row in connection.execute(_select_unmeasured(condition, since_ns)):
        _find_family(found, row).unmeasured += row.number
    return found


def _find_family(found: Families, row: Any) -> FamilyRuns:
    key = FamilyKey(row.tenant, row.project, row.user, find_pattern(row.family_name))
    return found.setdefault(key, FamilyRuns())


def join_owner(query: sa.Select[Any]) -> sa.Select[Any]:
    """Join a query of `jobs` to what `OWNER` names, and to the claim."""
    return (
        query.join(claims, claims.c.id == jobs.c.claim_id)
        .join(tenants, tenants.c.id == jobs.c.tenant_id)
        .join(projects, projects.c.id == jobs.c.project_id)
        .join(users, users.c.id == jobs.c.user_id)
        .outerjoin(
            _FIRST,
            sa.and_(
                _FIRST.c.array_id == jobs.c.array_id,
                _FIRST.c.array_index == _ZERO,
            ),
        )
    )


def join_launch(query: sa.Select[Any]) -> sa.Select[Any]:
    """Join a query of `jobs` to how they are started, which `IS_FENCED` reads."""
    return query.outerjoin(launches, launches.c.job_id == jobs.c.id).outerjoin(
        arrays, arrays.c.id == jobs.c.array_id
    )


def find_job_family(connection: sa.Connection, job_id: int) -> FamilyKey:
    """Find the family of a job by its row id."""
    query = join_owner(sa.select(*OWNER).select_from(jobs)).where(jobs.c.id == job_id)
    row = connection.execute(query).one()
    return FamilyKey(row.tenant, row.project, row.user, find_pattern(row.family_name))


def _select_measured(condition: sa.ColumnElement[bool], since_ns: int) -> sa.Select[Any]:
    """Select the newest measured runs, the newest first."""
    query = sa.select(
        use_histograms,
        *OWNER,
        jobs.c.public_id,
        claims.c.profile,
        claims.c.sharing,
        claims.c.preemptible,
        devices.c.model,
        devices.c.memory_bytes.label("card_bytes"),
    ).join_from(use_histograms, jobs, jobs.c.id == use_histograms.c.job_id)
    return (
        join_owner(query)
        .join(devices, devices.c.id == use_histograms.c.device_id)
        .where(condition, use_histograms.c.until_ns >= since_ns)
        .order_by(use_histograms.c.until_ns.desc())
        .limit(MOST_RUNS)
    )


def _select_unmeasured(condition: sa.ColumnElement[bool], since_ns: int) -> sa.Select[Any]:
    """Count runs on cards that nothing was measured of, by name."""
    measured = sa.exists().where(use_histograms.c.job_id == jobs.c.id)
    query = sa.select(*OWNER, sa.func.count().label("number")).select_from(jobs)
    return (
        join_owner(query)
        .where(condition, jobs.c.started_ns >= since_ns, claims.c.cards > 0, ~measured)
        .group_by(*(column.element for column in OWNER))
        .limit(MOST_RUNS)
    )


def _build_run(row: Any) -> MeasuredRun:
    share = RequestedShare(row.gpu_milli, row.memory_mib * MIB, row.cards, row.model, row.profile)
    return MeasuredRun(
        row.public_id,
        row.since_ns // NANOS_PER_SECOND,
        row.until_ns // NANOS_PER_SECOND,
        share,
        UseHistogram.from_milliseconds(row.bins, row.highest_milli),
        row.limited_milliseconds / 1000,
        row.limited_gpu_milli,
        row.peak_bytes,
    )


def add_live_runs(
    connection: sa.Connection, condition: sa.ColumnElement[bool], families: Families
) -> None:
    """Add what runs now to the families that are known."""
    query = join_owner(
        sa.select(
            *OWNER,
            jobs.c.public_id,
            jobs.c.name,
            claims.c.profile,
            claims.c.sharing,
            seats.c.gpu_milli,
            seats.c.memory_bytes,
            devices.c.memory_bytes.label("card_bytes"),
            advice_runs.c.gpu_milli.label("proposed_milli"),
            advice_runs.c.memory_bytes.label("proposed_bytes"),
        ).select_from(jobs)
    )
    is_proposal = sa.and_(advice_runs.c.job_id == jobs.c.id, advice_runs.c.state == PROPOSED)
    query = (
        query.join(allocations, allocations.c.job_id == jobs.c.id)
        .join(seats, seats.c.allocation_id == allocations.c.id)
        .join(devices, devices.c.id == seats.c.device_id)
        .outerjoin(advice_runs, is_proposal)
        .where(
            condition,
            IS_LIVE,
            jobs.c.state == JobState.RUNNING,
            allocations.c.state != sa.literal_column("'released'"),
        )
        .order_by(jobs.c.id, devices.c.idx)
    )
    seen = set[str]()
    for row in connection.execute(query):
        key = FamilyKey(row.tenant, row.project, row.user, find_pattern(row.family_name))
        if row.public_id in seen or key not in families:
            continue
        # All seats of a job have one size.
        seen.add(row.public_id)
        families[key].live.append(
            LiveRun(
                row.public_id,
                row.name,
                row.gpu_milli,
                row.memory_bytes,
                row.card_bytes,
                row.profile,
                row.sharing,
                row.proposed_milli,
                row.proposed_bytes,
            )
        )


def read_card_offers(connection: sa.Connection) -> list[CardOffer]:
    """Read the models of the pool, each with the profiles of one of its cards.

    Those of a card that is not cut are what it has once it is switched to MIG.
    """
    newest = sa.select(sa.func.max(devices.c.id)).group_by(devices.c.model)
    query = sa.select(devices).where(devices.c.id.in_(newest)).order_by(devices.c.model)
    return [_build_offer(row) for row in connection.execute(query)]


def count_partition_cards(connection: sa.Connection) -> dict[str, int]:
    """Count the cards of each model that can be cut into partitions."""
    found = dict[str, int]()
    for row in connection.execute(sa.select(devices.c.model, devices.c.facts)):
        modes = [mode["mode"] for mode in row.facts.get("modes", ())]
        if row.facts.get("profiles") or CardMode.MIG in modes:
            found[row.model] = found.get(row.model, 0) + 1
    return found


def _build_offer(row: Any) -> CardOffer:
    listed = row.facts.get("profiles", ())
    for mode in row.facts.get("modes", ()):
        if mode["mode"] == CardMode.MIG:
            listed = listed or mode.get("profiles", ())
    return CardOffer(row.model, row.memory_bytes, read_profiles(listed))


def list_runs(families: Iterable[FamilyRuns]) -> list[list[MeasuredRun]]:
    """List the runs of each family."""
    return [family.runs for family in families]
