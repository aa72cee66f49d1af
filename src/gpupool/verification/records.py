"""What `gpupool burn -o json` wrote, line by line: a job's own word. Lines of anything else are passed over."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gpupool.verification.statistics import Stretch


@dataclass
class Record:
    """All that one job has said so far. Feed it pieces of the log in order; a line may come in two."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            text = line.decode("utf-8", "replace")
            said = _object(text)
            if said is not None:
                self.lines.append(said)
            elif text.strip():
                self.other.append(text)

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]

    def first(self, kind: str) -> dict[str, Any] | None:
        return next((line for line in self.lines if line["kind"] == kind), None)

    def series(self) -> list[Stretch]:
        """What it got, stretch by stretch."""
        found = [line for line in self.all("stretch") if line["rate"] is not None]
        return [Stretch(line["begin_ns"], line["end_ns"], line["rate"]) for line in found]


def _object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else None
