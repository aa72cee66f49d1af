"""Cases of Kueue and Slurm with what was written down of those that end otherwise here.

Beside the cases of a suite lies `argued.json`: `reasons` by a short name, and by file and case
which reason it is and what gpupool does instead (`evicted`, `placed`, or `room`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.quota_cases import plan, rooms

HERE = Path(__file__).parent
SUITES = ("kueue", "slurm")
TABLE = "argued.json"


@dataclass(frozen=True)
class Filed:
    """A case and where it is from."""

    suite: str
    file: str
    case: Mapping[str, Any]

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.file}: {self.case['name']}"

    @property
    def outside(self) -> str:
        """What our terms lack to state it; empty where it is stated."""
        return str(self.case.get("outside", ""))

    def ended(self) -> dict[str, Any]:
        """What gpupool does with the case, in the words that the case expects something of."""
        expected = self.case["expected"]
        if "room" in expected:
            return {"room": rooms(self.case), "room_when_empty": rooms(self.case, empty=True)}
        written = plan(self.case).written(self.case)
        return {word: written[word] for word in expected}

    @property
    def argued(self) -> Mapping[str, Any] | None:
        """The reason and the outcome where gpupool does otherwise."""
        found: Mapping[str, Any] | None = (
            table(self.suite)["differences"].get(self.file, {}).get(self.case["name"])
        )
        return found


@cache
def table(suite: str) -> Mapping[str, Any]:
    """The reasons and the differences of a suite."""
    found: Mapping[str, Any] = json.loads((HERE / suite / TABLE).read_text(encoding="utf-8"))
    return found


def sources(suite: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The files of a suite, by name."""
    for path in sorted((HERE / suite).glob("*.json")):
        if path.name != TABLE:
            yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def filed(suite: str) -> Iterator[Filed]:
    """Every case of a suite, in the order of its files."""
    for name, source in sources(suite):
        yield from (Filed(suite, name, case) for case in source["cases"])
