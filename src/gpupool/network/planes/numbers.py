"""Chooses the numbers of a tenant on a plane: VLAN, VNI, partition key. In the caller's transaction."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, TooManyNetworks, WrongState
from gpupool.network.planes.model import Inventory, Plane
from gpupool.network.planes.tables import plane_demands
from gpupool.wire.network.planes import PlaneDemandIn

#: By plane, the columns of its numbers.
_COLUMNS: Final = {Plane.ROCE: ("vlan", "vni"), Plane.INFINIBAND: ("pkey",)}
_WORDS: Final = {"vlan": "VLAN", "vni": "VNI", "pkey": "partition key"}


def choose_numbers(
    connection: sa.Connection, inventory: Inventory | None, plane: Plane, body: PlaneDemandIn
) -> dict[str, int | None]:
    """Choose the numbers of a demand, by column.

    Raises:
        WrongState: a number is of another plane, or out of the inventory's range.
        NameTaken: another tenant has the number.
        TooManyNetworks: every number is taken.
    """
    columns = _COLUMNS.get(plane, ())
    found: dict[str, int | None] = dict.fromkeys(_WORDS)
    for column, words in _WORDS.items():
        wanted: int | None = getattr(body, column)
        if column not in columns:
            if wanted is not None:
                raise WrongState(f"the plane {plane} has no {words}", hint=f"leave out --{column}")
            continue
        numbers = _list_numbers(inventory, column)
        found[column] = _choose(connection, column, numbers, wanted)
    return found


def _list_numbers(inventory: Inventory | None, column: str) -> range:
    numbers = None
    if inventory is not None:
        ranges = {"vlan": inventory.vlans, "vni": inventory.vnis, "pkey": inventory.pkeys}
        numbers = ranges[column]
    if not numbers:
        raise WrongState(
            f"the inventory of planes has no {column}s for tenants",
            hint="an admin adds a range: gpupool network plane-inventory FILE",
        )
    return numbers


def _choose(connection: sa.Connection, column: str, numbers: range, wanted: int | None) -> int:
    words = _WORDS[column]
    span = f"{numbers[0]}-{numbers[-1]}"
    query = sa.select(plane_demands.c[column]).where(plane_demands.c[column].is_not(None))
    taken = set(connection.execute(query).scalars())
    if wanted is None:
        free = next((number for number in numbers if number not in taken), None)
        if free is None:
            raise TooManyNetworks(
                f"all {len(numbers)} {words}s {span} are taken",
                hint="an admin adds more: gpupool network plane-inventory FILE",
                limit=len(numbers),
            )
        return free
    if wanted not in numbers:
        raise WrongState(
            f"{words} {wanted} is not for tenants; {span} are", hint=f"leave out --{column}"
        )
    if wanted in taken:
        raise NameTaken(
            f"{words} {wanted} is taken by another tenant", hint=f"leave out --{column}"
        )
    return wanted
