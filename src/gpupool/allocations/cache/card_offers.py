"""The offers that agents published with their cards, by row of the snapshot.

Most pools are never asked for isolation, and a pool has ten thousand cards with a few kinds of
offers: so offers are read from JSON when they are asked for, and each kind once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpupool.model.isolation.mechanism_offer import CardOffers, read_offers


class PublishedOffers(Mapping[int, CardOffers]):
    """Offers by row; cards that are alike share one object. Does not change."""

    def __init__(self, rows: Sequence[Any]) -> None:
        """Keep the documents of rows that have `facts`, in the order of the snapshot."""
        documents = dict[int, Any]()
        for number, row in enumerate(rows):
            document = row.facts.get("mechanisms")
            if document:
                documents[number] = document
        self._documents = documents
        self._known = dict[str, CardOffers]()
        self._by_row = dict[int, CardOffers]()

    def __getitem__(self, row: int) -> CardOffers:
        found = self._by_row.get(row)
        if found is None:
            text = json.dumps(self._documents[row], sort_keys=True)
            found = self._known.get(text)
            if found is None:
                # Two threads may read the same one: the first to store it wins.
                found = self._known.setdefault(text, read_offers(self._documents[row]))
            self._by_row[row] = found
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain dict: the process that forecasts imports no package of the server."""
        return dict, (dict(self),)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same documents; reads no offer."""
        if isinstance(other, PublishedOffers):
            return self._documents == other._documents
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]
