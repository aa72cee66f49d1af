"""The owner of each card that serves MPS shares, and which cards are closed to a claim by that.

One MPS server runs the programs of one account, and a card that it serves runs no other share. So
a card takes an owner with its first MPS share and keeps it until it is empty. The owner of an empty
card means nothing: amounts at any instant, also a future one, say whether a card is empty. See
docs/decisions/0060-a-card-serves-one-mps-owner.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.filtering.capacity_change import OwnerChange
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: The number of no owner: shares of all other claims.
NO_OWNER = 0


class CardOwners:
    """The owner of each card as a number, in one column."""

    def __init__(self, cards: CardTable) -> None:
        self._memory_bytes = cards.untouched_bytes
        self._numbers = {"": NO_OWNER}
        self.column = np.zeros(len(cards), dtype=np.int64)
        #: Rows that have or had an owner.
        self.rows: Ints = np.zeros(0, dtype=np.int64)
        for row, owner in cards.owners.items():
            self.set_number(row, self.number_owner(owner))

    @property
    def is_used(self) -> bool:
        """Whether any card has or had an owner."""
        return len(self.rows) > 0

    def number_owner(self, owner: str) -> int:
        """Return the number of an owner, the same at every call."""
        return self._numbers.setdefault(owner, len(self._numbers))

    def get_owner(self, row: int) -> str:
        """Return the owner of a card; empty for none."""
        return list(self._numbers)[int(self.column[row])]

    def set_number(self, row: int, number: int) -> None:
        """Set the owner of a card, by its number."""
        if number != NO_OWNER and row not in self.rows:
            self.rows = np.append(self.rows, row)
        self.column[row] = number

    def list_changes(
        self, owner: str, rows: Ints, milli: Ints, sizes: Ints
    ) -> tuple[OwnerChange, ...]:
        """Return the changes of a claim that takes seats on these cards.

        The first share of a card decides. A seat that is held on a card in use changes nothing:
        until the shares there end, they decide.

        Args:
            owner: Of a claim for MPS; empty for any other claim.
            rows: The cards.
            milli: Free compute of each, before the seats are taken.
            sizes: Free memory of each.
        """
        number = self.number_owner(owner)
        differs = ~self._find_used(rows, milli, sizes) & (self.column[rows] != number)
        return tuple((row, int(self.column[row]), number) for row in rows[differs].tolist())

    def list_differences(self, owners: Mapping[int, str]) -> tuple[OwnerChange, ...]:
        """Return the changes from the owners that are known to these."""
        changes = list[OwnerChange]()
        for row in {*self.rows.tolist(), *owners}:
            before = int(self.column[row])
            after = self.number_owner(owners.get(row, ""))
            if before != after:
                changes.append((row, before, after))
        return tuple(changes)

    def find_closed(self, owner: str, rows: Ints | slice, milli: Ints, sizes: Ints) -> Bools:
        """Return which of these cards are closed to a claim, whatever is free on them.

        Args:
            owner: Of a claim for MPS; empty for any other claim.
            rows: The cards.
            milli: Free compute of each, at the instant in question.
            sizes: Free memory of each.
        """
        closed: Bools = self._find_used(rows, milli, sizes)
        closed &= self.column[rows] != self.number_owner(owner)
        return closed

    def _find_used(self, rows: Ints | slice, milli: Ints, sizes: Ints) -> Bools:
        used: Bools = (milli < WHOLE) | (sizes < self._memory_bytes[rows])
        return used
