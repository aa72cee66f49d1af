"""Build the rows of reports: what each is about, its sums, their order, and whether they close.

Pure: knows no database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpupool.metering.books import REMAINDER_OF, ZERO, HostAmount, UsageAmount
from gpupool.metering.energy.reading import EnergySum
from gpupool.metering.reading import ReportQuery
from gpupool.metering.samples import UNKNOWN_SUMS, RunningSums
from gpupool.wire.report import Kind, ReportRow

_KINDS: Sequence[Kind] = ("tenant", "reserved", "idle", "overhead", "unmanaged")


@dataclass(frozen=True)
class RowLabel:
    """What a row is about: an owner, or a rest of the cards."""

    kind: Kind
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    job: str | None = None
    job_name: str | None = None
    sharing: str | None = None
    device: str | None = None
    model: str | None = None


@dataclass
class RowSum:
    amount: UsageAmount = ZERO
    cost: Fraction = Fraction(0)
    used: RunningSums = UNKNOWN_SUMS
    #: None: unknown, or not asked for.
    host: HostAmount | None = None
    #: None: unknown, or the report is not grouped by what energy is recorded for.
    energy: EnergySum | None = None


def has_content(ask: ReportQuery, label: RowLabel, entry: RowSum) -> bool:
    """Whether a row says anything: one of zeros does only as the total of its kind."""
    always = label.kind in REMAINDER_OF.values() and "card" not in ask.by
    uses = entry.used != UNKNOWN_SUMS or entry.host is not None or entry.energy is not None
    return always or entry.amount != ZERO or uses


def get_sort_key(item: tuple[RowLabel, RowSum]) -> tuple[Any, ...]:
    label, entry = item
    return (
        _KINDS.index(label.kind),
        -entry.amount.card_milliseconds,
        label.tenant or "",
        label.project or "",
        label.user or "",
        label.job or "",
        label.device or "",
    )


def build_row(label: RowLabel, entry: RowSum, cost: str | None) -> ReportRow:
    return ReportRow(
        kind=label.kind,
        tenant=label.tenant,
        project=label.project,
        user=label.user,
        job=label.job,
        job_name=label.job_name,
        sharing=label.sharing,
        device=label.device,
        model=label.model,
        card_milliseconds=entry.amount.card_milliseconds,
        memory_mib_seconds=entry.amount.memory_mib_seconds,
        delivered_gpu_milliseconds=entry.used.gpu,
        cpu_milliseconds=entry.used.cpu,
        kept_gpu_milliseconds=entry.used.kept,
        borrowed_gpu_milliseconds=entry.used.borrowed,
        denied_gpu_milliseconds=entry.used.denied,
        cost=cost,
        host_cpu_milli_seconds=None if entry.host is None else entry.host.cpu_milli_seconds,
        host_memory_mib_seconds=None if entry.host is None else entry.host.memory_mib_seconds,
        **describe_energy(entry.energy),
    )


def rows_close(rows: Sequence[ReportRow], capacity: UsageAmount) -> bool:
    """Whether the rows add up to the capacity in both columns, and none of them is below 0."""
    compute = 0
    memory = 0
    for row in rows:
        # Two faults may cancel each other in the sum: a card held twice has a negative rest.
        if row.card_milliseconds < 0 or row.memory_mib_seconds < 0:
            return False
        compute += row.card_milliseconds
        memory += row.memory_mib_seconds
    return compute == capacity.card_milliseconds and memory == capacity.memory_mib_seconds


def describe_energy(energy: EnergySum | None) -> dict[str, int | None]:
    return {
        "energy_milliwatt_hours": None if energy is None else energy.milliwatt_hours,
        "measured_card_milliseconds": None if energy is None else energy.measured_milliseconds,
        "co2e_milligrams": None if energy is None else energy.co2e_milligrams,
    }
