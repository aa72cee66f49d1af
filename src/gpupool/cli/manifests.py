"""Files that `gpupool import` reads: YAML with the lines its values stand on, scripts, facts about nodes.

YAML is imported where a file is read: no other command pays for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadManifest, GpupoolError

LARGEST = 8 << 20
MOST_VALUES = 500_000
"""Aliases can make a few lines mean billions of values; a manifest that means more than these is none."""


@dataclass(frozen=True)
class Document:
    """One document of a file, and where its values stand."""

    file: str
    value: Any
    node: Any

    def line(self, path: tuple[str | int, ...] = ()) -> int:
        """The line of the key or element at that path, or of the nearest thing around it that exists."""
        node = at = self.node
        for step in path:
            found = _inner(node, step)
            if found is None:
                break
            at, node = found
        return int(at.start_mark.line) + 1

    def placed(self, error: GpupoolError) -> GpupoolError:
        """The error with file and line before its words."""
        path = error.details.get("path", ())
        error.message = f"{self.file}:{self.line(path)}: {error.message}"
        return error


def read_text(name: str) -> str:
    """A file's text, or standard input's for `-`. Raises BadManifest."""
    try:
        data = sys.stdin.buffer.read(LARGEST + 1) if name == "-" else _start(name)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise BadManifest(
            f"{name} cannot be read: {why}", hint="gpupool import FILE, or - for standard input"
        ) from None
    if len(data) > LARGEST:
        raise BadManifest(f"{name} is larger than {LARGEST >> 20} MiB", hint="import its parts one by one")
    return text


def _start(name: str) -> bytes:
    with Path(name).open("rb") as file:
        return file.read(LARGEST + 1)


def documents(name: str, text: str) -> list[Document]:
    """The documents of a YAML (or JSON) text, empty ones left out. Raises BadManifest with the line."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        found = list(_composed(loader))
        _bounded(name, found)
        return [Document(name, loader.construct_document(node), node) for node in found]
    except yaml.YAMLError as error:
        raise BadManifest(*_yaml_words(name, error)) from None
    except (RecursionError, ValueError) as error:
        raise BadManifest(f"{name} is no YAML: {error}") from None


def _composed(loader: Any) -> Iterator[Any]:
    while loader.check_node():
        node = loader.get_node()
        if node is not None and not (node.tag.endswith(":null") and not node.value):
            yield node


def _bounded(name: str, nodes: list[Any]) -> None:
    sizes: dict[int, int] = {}
    if sum(_size(node, sizes) for node in nodes) > MOST_VALUES:
        raise BadManifest(f"{name} means more than {MOST_VALUES} values, its aliases written out")


def _size(node: Any, known: dict[int, int]) -> int:
    """How many values a node means, aliases written out; one that holds itself means too many."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1
        parts = node.value if isinstance(node.value, list) else []
        inner = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        known[id(node)] = 1 + sum(_size(one, known) for one in inner)
    return known[id(node)]


def _yaml_words(name: str, error: Any) -> tuple[str]:
    mark = getattr(error, "problem_mark", None)
    where = f"{name}:{mark.line + 1}" if mark is not None else name
    return (f"{where}: this is no YAML: {getattr(error, 'problem', None) or error}",)


def _inner(node: Any, step: str | int) -> tuple[Any, Any] | None:
    """Where a part of a node begins (its key, in a mapping), and the part."""
    parts = node.value if isinstance(node.value, list) else []
    if isinstance(step, int):
        return (parts[step], parts[step]) if step < len(parts) and not isinstance(parts[step], tuple) else None
    return next((pair for pair in parts if isinstance(pair, tuple) and pair[0].value == step), None)
