"""How far charges are made, and making them again from an hour on."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.billing.charging.tables import charge_marks, charges, reserved_hours
from gpupool.metering.rollup import read_marks
from gpupool.store.database import WriteTransaction


@dataclass(frozen=True)
class ChargeMarks:
    """Every hour from `first_s` up to `next_s` has its charges."""

    first_s: int
    next_s: int


def read_charge_marks(connection: sa.Connection) -> ChargeMarks | None:
    """Read how far charges are made; None: no hour has any."""
    row = connection.execute(sa.select(charge_marks)).one_or_none()
    return None if row is None else ChargeMarks(row.first_s, row.next_s)


def write_charge_marks(write: WriteTransaction, marks: ChargeMarks) -> None:
    """Write how far charges are made."""
    write.execute(charge_marks.delete())
    write.execute(charge_marks.insert().values(id=1, first_s=marks.first_s, next_s=marks.next_s))


def forget_charges(write: WriteTransaction, since_s: int) -> None:
    """Delete the charges from an hour on, so that they are made again at today's prices.

    Hours that the books no longer tell apart keep theirs: they cannot be made again.
    """
    marks = read_charge_marks(write.connection)
    if marks is None:
        return
    start_s = max(since_s, marks.first_s, read_marks(write.connection).coarse_s)
    if start_s < marks.next_s:
        write.execute(charges.delete().where(charges.c.hour_s >= start_s))
        # What was recorded of reservations stays: older hours of the books cannot tell it again.
        write.execute(
            reserved_hours.update().where(reserved_hours.c.hour_s >= start_s).values(factor_milli=0)
        )
        write_charge_marks(write, ChargeMarks(marks.first_s, start_s))
