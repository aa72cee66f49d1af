"""Files that `gpupool import` reads: YAML with the lines its values stand on, scripts, facts about nodes.

YAML itself is read by `client.yaml_text`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadManifest, GpupoolError
from gpupool.client.yaml_text import BadYaml, read_documents

LARGEST = 8 << 20


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
    try:
        return [Document(name, value, node) for node, value in read_documents(text)]
    except BadYaml as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise BadManifest(f"{where}: this is no YAML: {error}") from None


def _inner(node: Any, step: str | int) -> tuple[Any, Any] | None:
    """Where a part of a node begins (its key, in a mapping), and the part."""
    parts = node.value if isinstance(node.value, list) else []
    if isinstance(step, int):
        return (parts[step], parts[step]) if step < len(parts) and not isinstance(parts[step], tuple) else None
    return next((pair for pair in parts if isinstance(pair, tuple) and pair[0].value == step), None)
