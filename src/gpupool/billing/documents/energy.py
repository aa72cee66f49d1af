"""The energy of a month, by owner and model, and the part of it that each row of FOCUS shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpupool.metering.energy.division import split_whole
from gpupool.metering.energy.reading import EnergySum, GroupEnergy, read_energy
from gpupool.tenancy.tables import projects, tenants

_KEYS = ("tenant_id", "project_id")


class EnergyKey(NamedTuple):
    """Whose energy of which model; names are empty where no tenant held it."""

    kind: str
    tenant: str
    project: str
    model: str


@dataclass(frozen=True)
class EnergyLine:
    """What was measured under one key in a month. A seal keeps it, as JSON."""

    kind: str
    tenant: str
    project: str
    model: str
    milliwatt_hours: int
    measured_milliseconds: int
    co2e_milligrams: int | None

    @property
    def key(self) -> EnergyKey:
        return EnergyKey(self.kind, self.tenant, self.project, self.model)

    @property
    def energy(self) -> EnergySum:
        return EnergySum(self.milliwatt_hours, self.measured_milliseconds, self.co2e_milligrams)


def read_energy_lines(connection: sa.Connection, since_s: int, until_s: int) -> list[EnergyLine]:
    """Read the energy of whole hours, of the whole pool. Nothing: unknown."""
    sums: dict[EnergyKey, EnergySum] = {}
    for key, group in _read_groups(connection, since_s, until_s, by_hour=False):
        sums[key] = sums[key] + group.energy if key in sums else group.energy
    return [
        EnergyLine(
            *key,
            sums[key].milliwatt_hours,
            sums[key].measured_milliseconds,
            sums[key].co2e_milligrams,
        )
        for key in sorted(sums)
    ]


def read_hours(
    connection: sa.Connection, since_s: int, until_s: int
) -> dict[tuple[int, EnergyKey], int]:
    """Read milliwatt-hours by hour and owner."""
    found: dict[tuple[int, EnergyKey], int] = defaultdict(int)
    for key, group in _read_groups(connection, since_s, until_s, by_hour=True):
        found[group.hour_s, key] += group.energy.milliwatt_hours
    return dict(found)


def sum_energy(lines: Iterable[EnergyLine]) -> EnergySum | None:
    """Sum up lines; None where there is none: unknown."""
    total: EnergySum | None = None
    for line in lines:
        total = line.energy if total is None else total + line.energy
    return total


def divide_energy(
    rows: Iterable[Any], energy: Mapping[tuple[int, EnergyKey], int]
) -> Iterator[tuple[Any, int | None]]:
    """Give each row of an hour its part of its owner's energy, by what it held.

    The parts add up to the energy. Rows come hour by hour.

    Args:
        rows: with `start_s`, `card_milliseconds` and a `line` of owner and model.
        energy: by start and owner; an owner that is missing is unknown.
    """
    for start_s, hour in groupby(rows, key=lambda row: row.start_s):
        of_owner: dict[EnergyKey, list[Any]] = defaultdict(list)
        for row in hour:
            line = row.line
            of_owner[EnergyKey(line.kind, line.tenant, line.project, line.model)].append(row)
        for key, mine in of_owner.items():
            total = energy.get((start_s, key))
            parts: Sequence[int | None] = [None] * len(mine)
            if total is not None:
                parts = _split(total, mine)
            yield from zip(mine, parts, strict=True)


def _split(total: int, rows: Sequence[Any]) -> list[int]:
    held = [row.card_milliseconds for row in rows]
    # Shares without a promise hold nothing, and have energy for what they used.
    return split_whole(total, held if any(held) else [1] * len(rows))


def _read_groups(
    connection: sa.Connection, since_s: int, until_s: int, *, by_hour: bool
) -> Iterator[tuple[EnergyKey, GroupEnergy]]:
    tenant_names = _read_names(connection, tenants)
    project_names = _read_names(connection, projects)
    groups = read_energy(connection, since_s, until_s, _KEYS, by_model=True, by_hour=by_hour)
    for group in groups:
        tenant = tenant_names.get(group.ids["tenant_id"] or 0, "")
        project = project_names.get(group.ids["project_id"] or 0, "")
        yield EnergyKey(group.kind, tenant, project, group.model), group


def _read_names(connection: sa.Connection, table: sa.Table) -> dict[int, str]:
    rows = connection.execute(sa.select(table.c.id, table.c.name))
    return {row.id: row.name for row in rows}
