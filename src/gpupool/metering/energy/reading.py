"""Read measured energy for a report or a month, with the CO2e of the factors in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.metering.books import HOUR_S, RowKind
from gpupool.metering.energy.factors import SiteFactor
from gpupool.metering.energy.tables import energy_factors, energy_slots
from gpupool.metering.reading import sum_bigint
from gpupool.metering.samples import SLOT_S


@dataclass(frozen=True)
class EnergySum:
    """Measured energy; `co2e_milligrams` is None where no factor was in force."""

    milliwatt_hours: int
    measured_milliseconds: int
    co2e_milligrams: int | None

    def __add__(self, other: EnergySum) -> EnergySum:
        co2e = None
        if self.co2e_milligrams is not None and other.co2e_milligrams is not None:
            co2e = self.co2e_milligrams + other.co2e_milligrams
        return EnergySum(
            self.milliwatt_hours + other.milliwatt_hours,
            self.measured_milliseconds + other.measured_milliseconds,
            co2e,
        )


@dataclass(frozen=True)
class GroupEnergy:
    """What one group drew; without ids: what was left of the cards, by kind."""

    kind: RowKind
    ids: Mapping[str, int | None]
    model: str
    energy: EnergySum
    #: Start of the hour, where groups are by hour.
    hour_s: int = 0


def read_factors(connection: sa.Connection) -> list[SiteFactor]:
    """Read the site's factors, the earliest first."""
    f = energy_factors.c
    query = sa.select(f.from_s, f.pue_milli, f.grid_milligrams).order_by(f.from_s)
    return [SiteFactor(*row) for row in connection.execute(query)]


def read_energy(
    connection: sa.Connection,
    since_s: int,
    until_s: int,
    keys: Sequence[str] = (),
    *,
    tenant_id: int | None = None,
    by_model: bool = False,
    by_hour: bool = False,
) -> Iterator[GroupEnergy]:
    """Read energy by group, to the slot: five minutes, an hour, or a day. Nothing: unknown.

    Args:
        keys: Of tenant_id, project_id and user_id.
        tenant_id: Only this tenant's; None: the whole pool's, with what was left of the cards.
        by_model: Whether groups are by model too.
        by_hour: Whether groups are by hour too.
    """
    factors = [one for one in read_factors(connection) if one.from_s < until_s]
    query = _select_energy(since_s, until_s, keys, factors, by_model, by_hour)
    if tenant_id is not None:
        query = query.where(energy_slots.c.tenant_id == tenant_id)
    for row in connection.execute(query):
        energy = row.milliwatt_hours
        factor = factors[row.factor - 1] if row.factor else None
        co2e = None if factor is None else factor.compute_co2e(energy)
        yield GroupEnergy(
            row.kind,
            {key: row._mapping[key] or None for key in keys},
            row.model if by_model else "",
            EnergySum(energy, row.measured_milliseconds, co2e),
            row.hour_s if by_hour else 0,
        )


def _select_energy(
    since_s: int,
    until_s: int,
    keys: Sequence[str],
    factors: Sequence[SiteFactor],
    by_model: bool,
    by_hour: bool,
) -> sa.Select[Any]:
    e = energy_slots.c
    columns: list[Any] = [e.kind, *(e[key] for key in keys)]
    if by_model:
        columns.append(e.model)
    # The number of factors that have begun: 0 is none. Literals, so that PostgreSQL groups by it.
    number: Any = sa.literal_column("0")
    whens: list[tuple[Any, Any]] = []
    for count, factor in enumerate(factors, 1):
        has_begun = e.slot_s >= sa.literal_column(str(factor.from_s))
        whens.append((has_begun, sa.literal_column(str(count))))
    if whens:
        number = sa.case(*reversed(whens), else_=sa.literal_column("0"))
    widths = sa.or_(
        sa.and_(e.width_s == SLOT_S, e.slot_s >= since_s - since_s % SLOT_S),
        sa.and_(e.width_s > SLOT_S, e.slot_s >= since_s),
    )
    query = sa.select(
        *columns,
        number.label("factor"),
        sum_bigint(e.milliwatt_hours).label("milliwatt_hours"),
        sum_bigint(e.measured_milliseconds).label("measured_milliseconds"),
    ).where(widths, e.slot_s < until_s)
    groups = [*columns, sa.text("factor")]
    if by_hour:
        hour = e.slot_s - e.slot_s % sa.literal_column(str(HOUR_S))
        query = query.add_columns(hour.label("hour_s"))
        groups.append(sa.text("hour_s"))
    return query.group_by(*groups)
