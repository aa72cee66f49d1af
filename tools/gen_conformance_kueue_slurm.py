"""The page of what Kueue's tables and Slurm's documents say, and where gpupool differs. Run by
`make docs`."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generated import ROOT, write_or_check

sys.path.insert(0, str(ROOT))

from tests.conformance.filed import SUITES, Filed, filed, sources, table

PAGE = ROOT / "docs" / "reference" / "conformance-kueue-slurm.md"
TITLES = {"kueue": "Kueue", "slurm": "Slurm"}
HEAD = """\
# Kueue's and Slurm's cases on gpupool
<!-- Made by `make docs` from tests/conformance/{kueue,slurm}; change the data instead. -->

Read here which behaviour of Kueue and Slurm you can expect from gpupool, and which not. Every case is a pool, a quota
tree, running work and waiting claims, with what the other scheduler does next. `pytest tests/conformance` plans each
case, on `cycle` and on the simulator's replay, and compares who is evicted and who starts.
[How cases are translated](../decisions/0028-cases-of-kueue-and-slurm.md).
"""


def page() -> str:
    """The whole page, in the order of the files."""
    every = [one for suite in SUITES for one in filed(suite)]
    parts = [HEAD, *summary(every)]
    for suite in SUITES:
        mine = [one for one in every if one.suite == suite]
        parts += [
            "",
            f"## {TITLES[suite]}",
            "",
            *sourced(suite),
            "",
            *differences(suite, mine),
            "",
            *outside(mine),
        ]
    return "\n".join([*parts, ""])


def summary(every: Sequence[Filed]) -> Iterator[str]:
    """One line per file, and their sum."""
    yield "| cases | translated | equal | argued | not translated |"
    yield "|---|--:|--:|--:|--:|"
    total = Counter[str]()
    for suite in SUITES:
        for name, _ in sources(suite):
            counts = counted([one for one in every if (one.suite, one.file) == (suite, name)])
            total += counts
            yield row(f"{suite}/{name}", counts)
    yield row("all", total)


def counted(found: Sequence[Filed]) -> Counter[str]:
    """How many of them are translated, equal, argued and outside."""
    counts = Counter[str]()
    for one in found:
        if one.outside:
            counts["outside"] += 1
            continue
        counts["translated"] += 1
        counts["equal" if one.argued is None else "argued"] += 1
    return counts


def row(name: str, counts: Mapping[str, int]) -> str:
    """One line of the summary."""
    cells = (str(counts.get(word, 0)) for word in ("translated", "equal", "argued", "outside"))
    return f"| {name} | {' | '.join(cells)} |"


def sourced(suite: str) -> Iterator[str]:
    """Where the facts are from."""
    for name, source in sources(suite):
        where = " ".join(str(source[word]) for word in ("repository", "source") if word in source)
        of = f", `{source['function']}`" if "function" in source else ""
        yield f"* `{name}`: {where}{of}, commit {source['commit'][:12]}"


def differences(suite: str, found: Sequence[Filed]) -> Iterator[str]:
    """By reason, the cases that end otherwise, with both ends."""
    yield "### Where gpupool differs"
    reasons = table(suite)["reasons"]
    by_reason = defaultdict[str, list[Filed]](list)
    for one in found:
        if one.argued is not None:
            by_reason[one.argued["reason"]].append(one)
    for name, each in sorted(by_reason.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        yield f"\n**{name}** ({len(each)}). {reasons[name]}\n"
        yield f"| case | {TITLES[suite]} | gpupool |\n|---|---|---|"
        for one in each:
            argued = one.argued or {}
            words = {word: argued[word] for word in one.case["expected"]}
            yield f"| {one.file}: {plain(one.case['name'])} | {said(one.case['expected'])} | {said(words)} |"


def outside(found: Sequence[Filed]) -> Iterator[str]:
    """By what our terms lack, the cases that are not translated."""
    yield "### Not translated\n"
    yield "| gpupool has no term for | cases | which |\n|---|--:|---|"
    by_term = defaultdict[str, list[str]](list)
    for one in found:
        if one.outside:
            by_term[one.outside].append(f"{one.file}: {plain(one.case['name'])}")
    for term, names in sorted(by_term.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        yield f"| {term} | {len(names)} | {'; '.join(names)} |"


def said(outcome: Mapping[str, Any]) -> str:
    """`evicts a, b; starts c`, or what room there is."""
    if "room" in outcome:
        each = outcome["room"].items()
        return "room " + ", ".join(
            f"{tenant} {amount}" for tenant, left in each for amount in left.values()
        )
    found = [f"evicts {', '.join(outcome['evicted'])}"] if outcome["evicted"] else []
    placed = outcome.get("placed", ())
    on = placed.items() if isinstance(placed, Mapping) else ((name, "") for name in placed)
    starts = [f"{name} on {model}" if model else name for name, model in on]
    found += [f"starts {', '.join(starts)}"] if starts else []
    return "; ".join(found) or "nothing"


def plain(name: str) -> str:
    """Safe in a table."""
    return name.replace("|", "/")


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
