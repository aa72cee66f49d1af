"""Read what `gpupool burn -o json` writes, line by line; other lines are passed over."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gpupool.verification.statistics import RateStretch


@dataclass
class BurnRecord:
    """All that one job has written so far.

    `other` are the lines of anything else (a driver's warning, a traceback): an error message about
    the job quotes them.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    _rest: bytes = b""

    def feed_output(self, data: bytes) -> None:
        """Add the next piece of the log; pieces come in order and may end inside a line."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            text = line.decode("utf-8", "replace")
            line_object = _parse_line(text)
            if line_object is not None:
                self.lines.append(line_object)
            elif text.strip():
                self.other.append(text)

    def list_lines(self, kind: str) -> list[dict[str, Any]]:
        """List the lines of a kind, in their order."""
        return [line for line in self.lines if line["kind"] == kind]

    def find_first(self, kind: str) -> dict[str, Any] | None:
        """Find the first line of a kind; None before the job has written it."""
        return next((line for line in self.lines if line["kind"] == kind), None)

    def list_stretches(self) -> list[RateStretch]:
        """List the measured rates, stretch by stretch."""
        stretches: list[RateStretch] = []
        for line in self.list_lines("stretch"):
            # A stretch without a rate had no work to measure.
            if line["rate"] is not None:
                stretches.append(RateStretch(line["begin_ns"], line["end_ns"], line["rate"]))
        return stretches


def _parse_line(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else None
