"""The frozen input of a cycle: everything the scheduler knows about a pool at one instant.

The builder of a snapshot (SQL ledger, Kubernetes objects, a trace) fills the columns of `cards` and
the classes of `claims`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.model.quota import WEIGHT, Quota, QuotaBranch, ResourceAmount
from gpupool.model.reservation import Reservation
from gpupool.model.suspension import USUAL_IDLE_RULES, IdleSuspensionRules
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import (
    ClassKey,
    ExpectedDemand,
    MigrationHold,
    RunningJob,
    SuspendedJob,
    WaitingClass,
)
from gpupool.scheduling.snapshot.plan import PlannedStart


@dataclass(frozen=True)
class TenantView:
    """A tenant's quota, what it holds now over all seats, and its place in the quota tree."""

    quota: Quota
    held: ResourceAmount
    #: None: right below the pool.
    cohort: str | None = None
    weight_milli: int = WEIGHT
    #: What it held before, faded with age: millionths of a card times seconds (see `usage`).
    past: int = 0


@dataclass(frozen=True)
class Snapshot:
    """The pool at one instant."""

    generation: int
    cards: CardTable
    tenants: Mapping[str, TenantView]
    waiting: tuple[WaitingClass, ...]
    #: The name of the rule of placement (`scheduling.scoring.registry`).
    policy: str = "default"
    running: tuple[RunningJob, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    expected: ExpectedDemand = field(default_factory=ExpectedDemand)
    #: `starts` of the plan before this one, as far as they are remembered: they are kept where that
    #: can be.
    previous_starts: Mapping[ClassKey, PlannedStart] = field(default_factory=dict)
    #: The quota tree above the tenants.
    cohorts: Mapping[str, QuotaBranch] = field(default_factory=dict)
    #: Where jobs are being moved to.
    migration_holds: tuple[MigrationHold, ...] = ()
    #: Jobs and gangs for which others were told to leave, the first told for first; also once those
    #: have left.
    beneficiaries: tuple[str, ...] = ()
    #: Jobs that were suspended because they were idle. The free amounts of `cards` are without what
    #: `idle_suspension.measure_kept` says is kept for them.
    suspended: tuple[SuspendedJob, ...] = ()
    #: How much memory of a card may be lent twice.
    idle_rules: IdleSuspensionRules = USUAL_IDLE_RULES
