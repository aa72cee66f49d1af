"""Finds requests for cards outside the pods that were read, as in kinds with pods of their own form.

It walks the whole document and knows no kinds: an object of an unknown kind is reported by name,
and not taken for one that asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupool.base.errors import KindUnread
from gpupool.dialects.contract import WordPlace
from gpupool.dialects.manifests.registry import find_word, is_probably_card
from gpupool.dialects.pod import Path, format_path, is_zero

#: Keys under which Kubernetes and the training operators write amounts.
_HOLDERS = ("resources", "resourcesPerNode")
_PARTS = ("limits", "requests")
#: Kinds that only describe others.
_SCHEMAS = ("CustomResourceDefinition",)


def check_unread(document: Mapping[str, Any], read: Iterable[Path]) -> None:
    """Raises KindUnread for a request that is in none of the places that were `read`."""
    kind = str(document.get("kind"))
    places = tuple(read)
    if kind in _SCHEMAS or () in places:
        return
    for path, key, value in _find_requests(document, ()):
        if not any(path[: len(place)] == place for place in places):
            name = (document.get("metadata") or {}).get("name", "unnamed")
            raise KindUnread(
                f"{kind} {name}: {key}: {value} at {format_path(path)}, where pods are not read",
                hint="import the pods that this kind makes, or their templates",
                path=(*path, key),
            )


def _find_requests(value: Any, path: Path) -> Iterator[tuple[Path, str, Any]]:
    if isinstance(value, Mapping):
        for name in _HOLDERS:
            holder = value.get(name)
            if isinstance(holder, Mapping):
                yield from _find_amounts(holder, (*path, name))
        for key, inner in value.items():
            yield from _find_requests(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _find_requests(inner, (*path, number))


def _find_amounts(holder: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str, Any]]:
    for part in _PARTS:
        amounts = holder.get(part)
        for key, amount in amounts.items() if isinstance(amounts, Mapping) else ():
            asks = find_word(str(key), WordPlace.RESOURCE) is not None or (
                "/" in str(key) and is_probably_card(str(key))
            )
            if asks and not isinstance(amount, (Mapping, list)) and not is_zero(amount):
                yield (*path, part), str(key), amount
