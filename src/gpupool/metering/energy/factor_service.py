"""The site's energy factors as admins set them and readers see them. Thread-safe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import BadOption, PastEnergyFactor, UnknownEnergyFactor
from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.metering.books import HOUR_S
from gpupool.metering.energy.tables import energy_factors
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.billing.energy import EnergyFactorIn, EnergyFactorOut

#: Factors of one pool: one a month for forty years.
MOST_FACTORS: Final = 500


class EnergyFactorService:
    """PUE and grid factor of the site, by the instant from which they hold."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list_all(self) -> list[EnergyFactorOut]:
        """List the factors, the earliest first."""
        with self._store.read() as connection:
            return _describe(_read_rows(connection))

    def read_now_ns(self) -> int:
        """The ledger's now."""
        return self._store.clock.now_ns()

    def set(self, caller: Principal, body: EnergyFactorIn) -> EnergyFactorOut:
        """Set the factors from an hour on. What is told of the time before stays as it was.

        Raises:
            BadOption: it begins within an hour, or there are too many.
            PastEnergyFactor: it would change hours that have factors already.
        """
        with self._store.write() as write:
            hour_s = _find_hour(write)
            from_s = hour_s if body.from_ns is None else body.from_ns // NANOS_PER_SECOND
            if body.from_ns is not None and body.from_ns % (HOUR_S * NANOS_PER_SECOND):
                raise BadOption(
                    f"energy factors begin at a whole hour, not at {format_instant(body.from_ns)}",
                    hint="write --from 2026-12-01 or --from 2026-12-01T08:00",
                )
            rows = _read_rows(write.connection)
            _check_past(rows, from_s, hour_s)
            if len(rows) >= MOST_FACTORS and all(row.from_s != from_s for row in rows):
                raise BadOption(
                    f"the pool has {len(rows)} energy factors, the most is {MOST_FACTORS}",
                    hint="gpupool energy delete TIME deletes those that have not begun",
                )
            write.execute(energy_factors.delete().where(energy_factors.c.from_s == from_s))
            write.execute(
                energy_factors.insert().values(
                    from_s=from_s,
                    pue_milli=body.pue_milli,
                    grid_milligrams=body.grid_milligrams,
                    set_by=caller.user,
                    set_ns=write.now_ns,
                )
            )
            write.event(
                "energy.factor.set",
                str(from_s),
                data={"pue_milli": body.pue_milli, "grid_milligrams": body.grid_milligrams},
            )
            out = _pick(_describe(_read_rows(write.connection)), from_s * NANOS_PER_SECOND)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete(self, from_ns: int) -> None:
        """Delete factors that have not begun: the ones before hold on.

        Raises:
            UnknownEnergyFactor: none begin then.
            PastEnergyFactor: they have begun.
        """
        with self._store.write() as write:
            rows = _read_rows(write.connection)
            found = _pick(_describe(rows), from_ns)
            from_s = found.from_ns // NANOS_PER_SECOND
            if from_s < _find_hour(write):
                raise PastEnergyFactor(
                    f"the energy factors of {format_instant(found.from_ns)} are in force or were",
                    hint="gpupool energy set --pue PUE --grid GRAMS changes them from now on",
                    from_ns=found.from_ns,
                )
            write.execute(energy_factors.delete().where(energy_factors.c.from_s == from_s))
            write.event("energy.factor.deleted", str(from_s))
            write.answer(204, None)


def _find_hour(write: WriteTransaction) -> int:
    """Find the start of the hour that runs."""
    now_s = write.now_ns // NANOS_PER_SECOND
    return now_s - now_s % HOUR_S


def _check_past(rows: Sequence[Any], from_s: int, hour_s: int) -> None:
    """Refuse what would change hours that are over and have factors.

    Before the first factors CO2e is unknown: others that begin earlier change no figure.
    """
    begun = [row.from_s for row in rows if row.from_s <= from_s]
    if from_s < hour_s and begun:
        raise PastEnergyFactor(
            f"the pool has energy factors since {format_instant(begun[0] * NANOS_PER_SECOND)}; "
            f"others from {format_instant(from_s * NANOS_PER_SECOND)} on would change hours that "
            "are over",
            hint="leave out --from: they hold from the hour that runs",
            from_ns=from_s * NANOS_PER_SECOND,
        )


def _read_rows(connection: sa.Connection) -> Sequence[Any]:
    return connection.execute(sa.select(energy_factors).order_by(energy_factors.c.from_s)).all()


def _describe(rows: Sequence[Any]) -> list[EnergyFactorOut]:
    ends = [row.from_s * NANOS_PER_SECOND for row in rows[1:]]
    found = []
    for row, until_ns in zip(rows, [*ends, None], strict=False):
        found.append(
            EnergyFactorOut(
                from_ns=row.from_s * NANOS_PER_SECOND,
                until_ns=until_ns,
                pue_milli=row.pue_milli,
                grid_milligrams=row.grid_milligrams,
                set_by=row.set_by,
                set_ns=row.set_ns,
            )
        )
    return found


def _pick(found: Sequence[EnergyFactorOut], from_ns: int) -> EnergyFactorOut:
    for one in found:
        if one.from_ns == from_ns:
            return one
    raise UnknownEnergyFactor(
        f"no energy factors begin at {format_instant(from_ns)}", hint="gpupool energy show"
    )
