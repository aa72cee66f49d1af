"""Reads running jobs as advice policies see them: what they hold, asked for and used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.rightsizing.reading import IS_FENCED, OWNER, join_launch, join_owner
from gpupool.allocations.store.advice_rows import (
    APPLIED,
    LAPSED,
    PROPOSED,
    RETURNED,
    WAITS,
    AdvisedShare,
)
from gpupool.allocations.store.advice_tables import advice_claims, advice_runs
from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import IS_LIVE, allocations, claims, jobs, seats
from gpupool.base.units import MIB, WHOLE
from gpupool.fleet.tables import devices
from gpupool.metering.job_use.tables import use_histograms
from gpupool.model.claim import SharingKind
from gpupool.model.job import ENDED, JobState
from gpupool.rightsizing.families import FamilyKey, find_pattern
from gpupool.rightsizing.policy import is_memory_too_small, is_share_too_small
from gpupool.rightsizing.runs import RequestedShare

#: States of a run that leave the job as it is.
_PROPOSALS: Final = (PROPOSED, LAPSED)
_SHARES: Final = (SharingKind.FIXED.value, SharingKind.BURST.value)
_USE: Final = (
    use_histograms.c.bins,
    use_histograms.c.limited_milliseconds,
    use_histograms.c.peak_bytes,
)
_CLAIM: Final = (
    advice_claims.c.policy.label("claim_policy"),
    advice_claims.c.state.label("claim_state"),
    advice_claims.c.asked_milli.label("claim_asked_milli"),
    advice_claims.c.asked_bytes.label("claim_asked_bytes"),
    advice_claims.c.gpu_milli.label("claim_given_milli"),
    advice_claims.c.memory_bytes.label("claim_given_bytes"),
)
_JOB: Final = (
    jobs.c.id,
    jobs.c.public_id,
    jobs.c.name,
    jobs.c.tenant_id,
    jobs.c.project_id,
    jobs.c.user_id,
)
_RUNNING: Final = (
    join_owner(
        sa.select(
            *OWNER,
            *_JOB,
            *_USE,
            *_CLAIM,
            claims.c.gpu_milli.label("claim_milli"),
            claims.c.memory_bytes.label("claim_bytes"),
            claims.c.cards,
            allocations.c.id.label("allocation_id"),
            seats.c.gpu_milli,
            seats.c.memory_bytes,
            devices.c.memory_bytes.label("card_bytes"),
            devices.c.model,
            advice_runs.c.allocation_id.label("run_allocation_id"),
            advice_runs.c.policy.label("run_policy"),
            advice_runs.c.state.label("run_state"),
            advice_runs.c.asked_milli.label("run_asked_milli"),
            advice_runs.c.asked_bytes.label("run_asked_bytes"),
            advice_runs.c.gpu_milli.label("run_given_milli"),
            advice_runs.c.memory_bytes.label("run_given_bytes"),
            advice_runs.c.measured_ms,
            advice_runs.c.limited_ms,
        ).select_from(jobs)
    )
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(seats, seats.c.allocation_id == allocations.c.id)
    .join(devices, devices.c.id == seats.c.device_id)
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .outerjoin(use_histograms, use_histograms.c.job_id == jobs.c.id)
    .outerjoin(advice_claims, advice_claims.c.claim_id == jobs.c.claim_id)
    .outerjoin(advice_runs, advice_runs.c.job_id == jobs.c.id)
    .where(
        IS_LIVE,
        jobs.c.state == JobState.RUNNING,
        jobs.c.stop_requested.is_(None),
        jobs.c.gang_id.is_(None),
        # Word for word the condition of the partial index on held allocations.
        allocations.c.state != sa.literal_column("'released'"),
        allocations.c.applied_generation.is_not(None),
        suspensions.c.allocation_id.is_(None),
        claims.c.profile.is_(None),
        claims.c.idle_seconds.is_(None),
        # Without a fence a job goes on with what is given to others.
        IS_FENCED,
        sa.func.coalesce(allocations.c.sharing, claims.c.sharing).in_(_SHARES),
    )
    .order_by(jobs.c.id, devices.c.idx)
)
_ENDED: Final = (
    join_owner(
        sa.select(
            *OWNER,
            *_JOB,
            *_USE,
            *_CLAIM,
            jobs.c.ended_ns,
            use_histograms.c.gpu_milli,
            use_histograms.c.memory_mib,
        ).select_from(jobs)
    )
    .join(advice_claims, advice_claims.c.claim_id == jobs.c.claim_id)
    .join(use_histograms, use_histograms.c.job_id == jobs.c.id)
    .outerjoin(advice_runs, advice_runs.c.job_id == jobs.c.id)
    .where(
        jobs.c.ended_ns > sa.bindparam("since"),
        jobs.c.state.in_(ENDED),
        advice_claims.c.state == APPLIED,
        # What runs is judged while it runs.
        advice_runs.c.job_id.is_(None),
    )
)


@dataclass(frozen=True)
class RunningShare:
    """A running job with shares of cards.

    Attributes:
        owner: row ids of its tenant, project and user.
        claim: what a policy did with its claim; None: nothing.
        run: what a policy did with it while it ran; None: nothing.
        run_is_of_now: whether that was in the allocation that it has now.
        base_ms: measured use before `run`, and how long of it was at its limit.
    """

    row_id: int
    job: str
    name: str
    owner: tuple[int, int, int]
    key: FamilyKey
    allocation_id: int
    cards: int
    model: str
    gpu_milli: int
    memory_bytes: int
    card_bytes: int
    claim_milli: int
    claim_bytes: int | None
    claim: AdvisedShare | None
    run: AdvisedShare | None
    run_is_of_now: bool
    base_ms: tuple[int, int]
    measured_ms: int
    limited_ms: int
    peak_bytes: int | None

    @property
    def change(self) -> AdvisedShare | None:
        """What a policy gave it instead of its request, and is in force; None: nothing."""
        found = self.run if self.run_is_of_now else self.claim
        if found is None or found.state not in (APPLIED, WAITS):
            return None
        is_same = found.gpu_milli == self.gpu_milli
        # Its user, or an idle policy, has resized it since.
        return found if is_same and _is_near(found.memory_bytes, self.memory_bytes) else None

    @property
    def must_return(self) -> bool:
        """Whether what it got is too small, as its use says, or as an earlier run of it said."""
        change = self.change
        if change is None:
            return False
        if self.run is not None and self.run.state in (WAITS, RETURNED):
            return True
        measured, limited = self.base_ms if self.run_is_of_now else (0, 0)
        if change.gpu_milli < change.asked_milli and is_share_too_small(
            (self.limited_ms - limited) / 1000, (self.measured_ms - measured) / 1000
        ):
            return True
        asked = change.asked_bytes or 0
        return is_memory_too_small(self.peak_bytes, change.memory_bytes or 0, asked)

    @property
    def proposal(self) -> AdvisedShare | None:
        """What was proposed for it last, also one that lapsed; None: nothing."""
        if self.run is not None:
            return self.run if self.run.state in _PROPOSALS else None
        is_proposed = self.claim is not None and self.claim.state == PROPOSED
        return self.claim if is_proposed else None

    @property
    def has_open_proposal(self) -> bool:
        """Whether a proposal of a policy for the running job stands."""
        return self.run is not None and self.run.state == PROPOSED

    @property
    def request(self) -> RequestedShare | None:
        """What it holds as it was asked for; None: a policy may not change it."""
        is_touched = self.claim is not None and self.claim.state != PROPOSED
        if is_touched or (self.run is not None and self.run.state not in _PROPOSALS):
            return None
        if self.gpu_milli != self.claim_milli:
            return None
        if self.claim_bytes is not None and not _is_near(self.claim_bytes, self.memory_bytes):
            return None
        if self.gpu_milli == WHOLE and _is_near(self.memory_bytes, self.card_bytes):
            return None  # no fence runs in it that a resize could change
        return RequestedShare(self.gpu_milli, self.memory_bytes, self.cards, self.model)


def _is_near(one: int | None, other: int) -> bool:
    """Whether two sizes are equal but for rounding to MiB."""
    return one is not None and abs(one - other) < MIB


def read_running_shares(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[RunningShare]:
    """Read the running jobs with shares, those that were submitted first in front."""
    return _build_shares(connection.execute(join_launch(_RUNNING).where(*conditions)))


def read_changed_shares(connection: sa.Connection) -> list[RunningShare]:
    """Read the running jobs that a policy has changed."""
    is_changed = sa.or_(advice_claims.c.state == APPLIED, advice_runs.c.job_id.is_not(None))
    return read_running_shares(connection, is_changed)


def read_running_share(connection: sa.Connection, job_id: int) -> RunningShare | None:
    """Read one job again; None: it runs no more, or is not what a policy may change."""
    found = read_running_shares(connection, jobs.c.id == job_id)
    return found[0] if found else None


def _build_shares(rows: Iterable[Any]) -> list[RunningShare]:
    found = dict[int, RunningShare]()
    for row in rows:
        # All seats of a job have one size.
        if row.id not in found:
            found[row.id] = _build_share(row)
    return list(found.values())


def _build_share(row: Any) -> RunningShare:
    measured_ms, limited_ms = read_use(row)
    run = None
    if row.run_state is not None:
        run = AdvisedShare(
            row.run_policy,
            row.run_state,
            row.run_asked_milli,
            row.run_asked_bytes,
            row.run_given_milli,
            row.run_given_bytes,
        )
    return RunningShare(
        row_id=row.id,
        job=row.public_id,
        name=row.name,
        owner=(row.tenant_id, row.project_id, row.user_id),
        key=_build_key(row),
        allocation_id=row.allocation_id,
        cards=row.cards,
        model=row.model,
        gpu_milli=row.gpu_milli,
        memory_bytes=row.memory_bytes,
        card_bytes=row.card_bytes,
        claim_milli=row.claim_milli,
        claim_bytes=row.claim_bytes,
        claim=_build_claim(row),
        run=run,
        run_is_of_now=run is not None and row.run_allocation_id == row.allocation_id,
        base_ms=(row.measured_ms or 0, row.limited_ms or 0),
        measured_ms=measured_ms,
        limited_ms=limited_ms,
        peak_bytes=row.peak_bytes,
    )


def _build_key(row: Any) -> FamilyKey:
    return FamilyKey(row.tenant, row.project, row.user, find_pattern(row.family_name))


def _build_claim(row: Any) -> AdvisedShare | None:
    if row.claim_state is None:
        return None
    return AdvisedShare(
        row.claim_policy,
        row.claim_state,
        row.claim_asked_milli,
        row.claim_asked_bytes,
        row.claim_given_milli,
        row.claim_given_bytes,
    )


def read_use(row: Any) -> tuple[int, int]:
    """Return the measured milliseconds of a row, and those at the limit; 0: nothing was measured."""
    if row.bins is None:
        return 0, 0
    bins = json.loads(row.bins) if isinstance(row.bins, str) else row.bins
    return sum(bins), row.limited_milliseconds


@dataclass(frozen=True)
class EndedShare:
    """A job that ended with a share of a policy, and whether that was too small."""

    job: str
    key: FamilyKey
    owner: tuple[int, int, int]
    ended_ns: int
    was_too_small: bool


def read_ended_shares(connection: sa.Connection, since_ns: int) -> list[EndedShare]:
    """Read the jobs that ended since an instant with the share that a policy gave their claim."""
    found = list[EndedShare]()
    for row in connection.execute(_ENDED, {"since": since_ns}):
        claim = _build_claim(row)
        assert claim is not None
        measured_ms, limited_ms = read_use(row)
        # A later size says that its user has resized it.
        is_given = claim.gpu_milli == row.gpu_milli < claim.asked_milli
        too_small = is_given and is_share_too_small(limited_ms / 1000, measured_ms / 1000)
        held = row.memory_mib * MIB
        short = is_memory_too_small(row.peak_bytes, held, claim.asked_bytes or 0)
        owner = (row.tenant_id, row.project_id, row.user_id)
        found.append(
            EndedShare(row.public_id, _build_key(row), owner, row.ended_ns, too_small or short)
        )
    return found
