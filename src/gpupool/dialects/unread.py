"""Requests for cards that stand where no pod is read: a kind with pods of its own form, or made from elsewhere.

A plain walk over the document, which knows nothing of kinds: so an object that nobody thought of is named, and not
passed as one that asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupool.base.errors import KindUnread
from gpupool.dialects.contract import Where
from gpupool.dialects.pod import Path, dotted, nought
from gpupool.dialects.registry import find, seems_a_card

_HOLDERS = ("resources", "resourcesPerNode")
_PARTS = ("limits", "requests")
_SCHEMAS = ("CustomResourceDefinition",)
"""Kinds that only describe others."""


def check(document: Mapping[str, Any], read: Iterable[Path]) -> None:
    """Raises KindUnread for a request that is in none of the places that were `read`."""
    kind = str(document.get("kind"))
    places = tuple(read)
    if kind in _SCHEMAS or () in places:
        return
    for path, key, value in _asked(document, ()):
        if not any(path[: len(place)] == place for place in places):
            raise KindUnread(
                f"{kind} {(document.get('metadata') or {}).get('name', 'unnamed')}: {key}: {value} at {dotted(path)},"
                " where pods are not read",
                hint="import the pods that this kind makes, or their templates",
                path=(*path, key),
            )


def _asked(value: Any, path: Path) -> Iterator[tuple[Path, str, Any]]:
    if isinstance(value, Mapping):
        for name in _HOLDERS:
            holder = value.get(name)
            if isinstance(holder, Mapping):
                yield from _amounts(holder, (*path, name))
        for key, inner in value.items():
            yield from _asked(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _asked(inner, (*path, number))


def _amounts(holder: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str, Any]]:
    for part in _PARTS:
        amounts = holder.get(part)
        for key, amount in amounts.items() if isinstance(amounts, Mapping) else ():
            asks = find(str(key), Where.RESOURCE) is not None or ("/" in str(key) and seems_a_card(str(key)))
            if asks and not isinstance(amount, (Mapping, list)) and not nought(amount):
                yield (*path, part), str(key), amount
