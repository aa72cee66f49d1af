"""Make all charges of an hour: of what tenants held, reserved, and left of the cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.billing.charging.rating import Charge, ReservedCharge, make_charges, price_reserved
from gpupool.billing.charging.reserved_reading import read_reserved_parts
from gpupool.billing.charging.reserved_time import CardModel
from gpupool.billing.prices.price_list import DatedPriceList
from gpupool.metering.books import RollupMarks


@dataclass(frozen=True)
class HourCharges:
    """Charges of one hour or a part of it."""

    charges: Sequence[Charge]
    reserved: Sequence[ReservedCharge]


def make_hour(
    connection: sa.Connection,
    price_list: DatedPriceList | None,
    cards: Mapping[int, CardModel],
    marks: RollupMarks,
    since_s: int,
    until_s: int,
    *,
    tenant_id: int | None = None,
) -> HourCharges:
    """Make the charges of one hour or a part of it.

    Args:
        price_list: in force in this hour; None: nothing has a price.
        tenant_id: only this tenant's, without what is left of the cards; None: all.
    """
    # Without a price nothing of it is spent, and a budget need not know it.
    is_free = price_list is None or not price_list.reserved_milli
    parts = []
    if tenant_id is None or not is_free:
        parts = read_reserved_parts(connection, price_list, cards, marks, since_s, until_s)
    # One tenant's part is known only beside the others: they share what is idle.
    mine = [part for part in parts if tenant_id in (None, part.tenant_id)]
    reserved = price_reserved(mine, price_list, cards, since_s)
    charges = make_charges(
        connection,
        price_list,
        cards,
        marks,
        since_s,
        until_s,
        tenant_id=tenant_id,
        reserved=reserved,
    )
    return HourCharges(charges, reserved)
