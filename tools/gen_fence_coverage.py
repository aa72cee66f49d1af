"""The page of what the fence does with every driver and NVML function, from its tables. Run by
`make docs`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from generated import ROOT, write_or_check

SPEC = ROOT / "native" / "fence" / "spec"
PAGE = ROOT / "docs" / "reference" / "fence-coverage.md"
TABLES = {
    "The CUDA driver (`libcuda.so.1`)": "driver.tsv",
    "NVML (`libnvidia-ml.so.1`)": "nvml.tsv",
}
MEANINGS = {
    "account": "its memory is reserved before the driver is asked, and given back when it is freed",
    "throttle": "it waits until the share may use the card, and its GPU time is measured",
    "virtualize": "the answer is the share's, not the card's",
    "deny": "refused",
    "wait": "it waits while the share is suspended; else it is not touched",
    "pass": "not touched: the name leads to the driver itself",
}
_FORM = re.compile(r"^(?P<base>\w+?)(?P<form>(?:_v\d+)?(?:_ptsz|_ptds)?)$")


@dataclass(frozen=True)
class Row:
    symbol: str
    klass: str
    note: str


def read(table: str) -> list[Row]:
    lines = (SPEC / table).read_text(encoding="utf-8").splitlines()[1:]
    cells = [line.split("\t") for line in lines]
    return [Row(symbol, klass, note) for symbol, klass, _, note in cells]


def page() -> str:
    """The whole page. Deterministic: the order of the tables' rows does not matter."""
    parts = [
        "# What the fence does with each function",
        "<!-- Made by `make docs` from native/fence/spec; change the tables instead. -->",
        "",
        "Every symbol that the vendor's headers 12.9 or 13.5 declare is classified; a new header's symbol that is not",
        "stops the build. Forms of one function stand together, `cuMemAlloc` (`_v2`); `_ptsz` and `_ptds` are twins",
        "whose default stream is the calling thread's own. A driver newer than the headers may have functions that",
        "are not here: they pass, are listed by `gpupool doctor`, and lower the level that a grant states.",
    ]
    for title, table in TABLES.items():
        parts += section(title, read(table))
    return "\n".join([*parts, ""])


def section(title: str, rows: Sequence[Row]) -> Iterator[str]:
    counts = Counter(row.klass for row in rows)
    yield from ("", f"## {title}", "", "| class | symbols | what happens |", "|---|---|---|")
    yield from (
        f"| {klass} | {counts[klass]} | {meaning} |"
        for klass, meaning in MEANINGS.items()
        if counts[klass]
    )
    yield f"| | {len(rows)} | |"
    for klass in MEANINGS:
        of_class = [row for row in rows if row.klass == klass]
        if of_class:
            yield from ("", f"### {klass}", "", "| functions | why, or how |", "|---|---|")
            yield from (f"| {names} | {note} |" for note, names in by_note(of_class))


def by_note(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Functions that share a note, folded; those without one come last."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        notes.setdefault(row.note, []).append(row.symbol)
    for note in sorted(notes, key=lambda note: (not note, min(notes[note]))):
        yield note, ", ".join(folded(notes[note]))


def folded(symbols: Iterable[str]) -> Iterator[str]:
    """`cuMemAlloc` (`_v2`) for cuMemAlloc and cuMemAlloc_v2."""
    forms: dict[str, set[str]] = {}
    for symbol in symbols:
        found = _FORM.match(symbol)
        assert found is not None, symbol
        forms.setdefault(found["base"], set()).add(found["form"])
    for base, endings in sorted(forms.items()):
        others = " ".join(f"`{ending}`" for ending in sorted(endings - {""}))
        if not others:
            yield f"`{base}`"
        elif "" in endings:
            yield f"`{base}` ({others})"
        else:
            yield ", ".join(f"`{base}{ending}`" for ending in sorted(endings))


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
