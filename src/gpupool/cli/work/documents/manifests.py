"""The files that `gpupool import` reads: YAML with the lines of its values, scripts, node facts.

YAML itself is read by `client.yaml_text`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadManifest, GpupoolError
from gpupool.client.yaml_text import BadYaml, read_documents

#: Bytes of a file. A larger one is no manifest, and YAML takes many times its size in memory.
LARGEST = 8 << 20


@dataclass(frozen=True)
class ManifestDocument:
    """One document of a file, and where its values stand."""

    file: str
    value: Any
    node: Any

    def find_line(self, path: tuple[str | int, ...] = ()) -> int:
        """Return the line of the key or element at that path, or of the nearest part there is."""
        node = at = self.node
        for step in path:
            found = _find_part(node, step)
            if found is None:
                break
            at, node = found
        return int(at.start_mark.line) + 1

    def locate_error(self, error: GpupoolError) -> GpupoolError:
        """Put file and line before the words of an error; return the error."""
        path = error.details.get("path", ())
        error.message = f"{self.file}:{self.find_line(path)}: {error.message}"
        return error


def read_text(name: str) -> str:
    """Read a file's text, or standard input's for `-`. Raises BadManifest."""
    try:
        # One byte more than allowed, so that a longer input is seen without being read.
        data = sys.stdin.buffer.read(LARGEST + 1) if name == "-" else _read_start(name)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise BadManifest(
            f"{name} cannot be read: {why}", hint="gpupool import FILE, or - for standard input"
        ) from None
    if len(data) > LARGEST:
        raise BadManifest(
            f"{name} is larger than {LARGEST >> 20} MiB", hint="import its parts one by one"
        )
    return text


def _read_start(name: str) -> bytes:
    with Path(name).open("rb") as file:
        return file.read(LARGEST + 1)


def parse_documents(name: str, text: str) -> list[ManifestDocument]:
    """Parse a YAML (or JSON) text, without empty documents. Raises BadManifest with the line."""
    try:
        return [ManifestDocument(name, value, node) for node, value in read_documents(text)]
    except BadYaml as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise BadManifest(f"{where}: this is no YAML: {error}") from None


def _find_part(node: Any, step: str | int) -> tuple[Any, Any] | None:
    """Return where a part of a node begins (its key, in a mapping), and the part."""
    parts = node.value if isinstance(node.value, list) else []
    if isinstance(step, int):
        if step < len(parts) and not isinstance(parts[step], tuple):
            return parts[step], parts[step]
        return None
    for pair in parts:
        if isinstance(pair, tuple) and pair[0].value == step:
            return pair
    return None
