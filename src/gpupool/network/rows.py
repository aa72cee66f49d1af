"""Rows of an OVN northbound database as values: what is wanted, what is there, what to change. Pure.

A row of ours carries the pool and its key in `external_ids`. Rows without these belong to other
users of the database: no plan changes or removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: A column's value: of a scalar, a set, or a map. Sets are sorted, so that equal means equal.
Value = str | int | bool | tuple[str, ...] | tuple[int, ...] | Mapping[str, str] | Mapping[str, int]


@dataclass(frozen=True)
class NorthboundRow:
    """One row of ours.

    Attributes:
        key: unique among the rows of the pool, as `port/n-4k9x2m7q8w`.
        columns: the columns that are ours; others of the row are left alone.
        references: by column, the keys of the rows that it refers to.
        initial: columns that are written with the row and are others' from then on.
    """

    table: str
    key: str
    columns: Mapping[str, Value] = field(default_factory=dict)
    references: Mapping[str, frozenset[str]] = field(default_factory=dict)
    initial: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class RowUpdate:
    """What to change in a row that is there.

    Attributes:
        columns: new values.
        added: by column, keys of rows to refer to as well.
        removed: by column, keys of rows to refer to no more.
    """

    table: str
    key: str
    columns: Mapping[str, Value]
    added: Mapping[str, frozenset[str]]
    removed: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class ChangeSet:
    """What makes the rows that are there those that are wanted."""

    created: tuple[NorthboundRow, ...] = ()
    updated: tuple[RowUpdate, ...] = ()
    deleted: tuple[NorthboundRow, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.updated or self.deleted)


def plan_changes(
    wanted: Iterable[NorthboundRow], observed: Mapping[str, NorthboundRow]
) -> ChangeSet:
    """Plan what makes the observed rows the wanted ones.

    Args:
        wanted: every row that should be there, in any order.
        observed: by key, every row of ours that is there, with the columns that were read.
    """
    created = list[NorthboundRow]()
    updated = list[RowUpdate]()
    deleted = list[NorthboundRow]()
    keys = set[str]()
    for row in wanted:
        keys.add(row.key)
        present = observed.get(row.key)
        if present is None:
            created.append(row)
        elif present.table != row.table:
            deleted.append(present)
            created.append(row)
        elif (update := _compare_rows(row, present)) is not None:
            updated.append(update)
    for key, row in observed.items():
        if key not in keys:
            deleted.append(row)
    return ChangeSet(tuple(created), tuple(updated), tuple(deleted))


def _compare_rows(wanted: NorthboundRow, present: NorthboundRow) -> RowUpdate | None:
    columns = dict[str, Value]()
    for name, value in wanted.columns.items():
        if present.columns.get(name) != value:
            columns[name] = value
    added = dict[str, frozenset[str]]()
    removed = dict[str, frozenset[str]]()
    for name, keys in wanted.references.items():
        before = present.references.get(name, frozenset())
        if keys - before:
            added[name] = keys - before
        if before - keys:
            removed[name] = before - keys
    if not (columns or added or removed):
        return None
    return RowUpdate(wanted.table, wanted.key, columns, added, removed)
