"""Which cards of a map have changed since an answer: a console is sent these alone. Pure.

A map is compared with the one before it, and each card keeps the number of the comparison in which
it differed last. So an answer of any age is continued from two numbers a card, and no map of the
past is kept. ADR 0101.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from gpupool.wire.views.pool_map import MapChangesOut, MapOut, MapRows

#: Numbers of one share in `shares`.
_SHARE = 3


class MapHistory:
    """The changes of one caller's map. Not thread-safe."""

    def __init__(self, origin: str) -> None:
        """Begin with no map.

        Args:
            origin: distinguishes this history from every other one, also of an earlier process.
        """
        self._origin = origin
        self._number = 0
        #: The comparison before which cards or nodes themselves were others.
        self._shape_number = 0
        self._map: MapOut | None = None
        self._hashes = array("q")
        self._changed = array("q")

    def note(self, found: MapOut) -> MapOut:
        """Compare a map with the one before. Returns it with its cursor."""
        hashes = array("q", _hash_cards(found))
        before = self._map
        if before is None or not _has_same_shape(before, found):
            self._number += 1
            self._shape_number = self._number
            self._changed = array("q", [self._number]) * len(hashes)
        else:
            pairs = enumerate(zip(self._hashes, hashes, strict=True))
            changed = [card for card, (old, new) in pairs if old != new]
            if changed or before.tenants != found.tenants:
                self._number += 1
            for card in changed:
                self._changed[card] = self._number
        self._hashes = hashes
        self._map = found.model_copy(update={"cursor": f"{self._origin}.{self._number}"})
        return self._map

    def list_changes(self, cursor: str) -> MapChangesOut | None:
        """List what has changed since the answer of a cursor; None: all is to be sent."""
        origin, _, text = cursor.rpartition(".")
        # A cursor is the caller's text: not every digit of Unicode is one of a number.
        if self._map is None or origin != self._origin or not (text.isascii() and text.isdigit()):
            return None
        since = int(text)
        if not self._shape_number <= since <= self._number:
            return None
        cards = [card for card, number in enumerate(self._changed) if number > since]
        return _pick_cards(self._map, cards)


def _has_same_shape(before: MapOut, after: MapOut) -> bool:
    return (
        before.cards.id == after.cards.id
        and before.cards.node == after.cards.node
        and before.cards.index == after.cards.index
        and before.cards.model == after.cards.model
        and before.models == after.models
        and before.nodes == after.nodes
        and before.simulated == after.simulated
    )


def _hash_cards(found: MapOut) -> Iterator[int]:
    """Hash what each card shows; of a share the tenant's name, since positions move."""
    cards = found.cards
    shares = list[list[object]]()
    for _ in cards.id:
        shares.append([])
    flat = found.shares
    for number, mib in enumerate(found.share_mib):
        card, tenant, milli = flat[_SHARE * number : _SHARE * number + _SHARE]
        shares[card] += (found.tenants[tenant] if tenant >= 0 else None, milli, mib)
    columns = zip(*(getattr(cards, name) for name in MapRows.model_fields), strict=True)
    for row, held in zip(columns, shares, strict=True):
        yield hash((row, tuple(held)))


def _pick_cards(found: MapOut, cards: list[int]) -> MapChangesOut:
    columns = dict[str, list[Any]]()
    for name in MapRows.model_fields:
        column = getattr(found.cards, name)
        columns[name] = [column[card] for card in cards]
    # The shares stand by card: those of one card are found by halving.
    owners = found.shares[::_SHARE]
    shares = list[int]()
    share_mib = list[int]()
    for card in cards:
        begin = bisect_left(owners, card)
        end = bisect_left(owners, card + 1, begin)
        shares += found.shares[_SHARE * begin : _SHARE * end]
        share_mib += found.share_mib[begin:end]
    return MapChangesOut(
        seq=found.seq,
        cursor=found.cursor,
        tenants=found.tenants,
        changed=cards,
        rows=MapRows(**columns),
        shares=shares,
        share_mib=share_mib,
    )
