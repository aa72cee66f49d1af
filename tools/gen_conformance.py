"""Writes docs/reference/conformance.md from the cases and their endings. `--check` only says
whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from generated import ROOT, write_or_check

sys.path.insert(0, str(ROOT))

from tests.conformance.filed import SUITES as QUOTA_SUITES
from tests.conformance.table import Argued, Found, all_examined, argued

TARGET = ROOT / "docs" / "reference" / "conformance.md"
TITLES = {"kai": "KAI-Scheduler", "kueue": "Kueue", "slurm": "Slurm"}
QUOTA_PAGE = "conformance-kueue-slurm.md"
"""Beside it: `gen_conformance_kueue_slurm`."""
HEAD = """# Cases of other schedulers

<!-- Made by `make docs`; change the code instead. -->

The tests of other schedulers say what their users expect: which claims start, wait or are evicted. Their facts (nodes,
quotas, jobs, outcome) are data in `tests/conformance/`, in gpupool's own terms, each file with its source and commit.
Every case is played on the scheduler's own `cycle` until nothing changes, and on the simulator's replay, where it
has to end alike. A case that never settles fails in any case.
What it means for quotas is in [fairness](../concepts/fairness.md) and [gangs](../concepts/gangs.md).

* **equal**: the same claims run, with as many members, on the same nodes where the case names them.
* **argued**: it ends otherwise, for one of the reasons below.
* **outside**: it asks for something that gpupool does not have.

`python -m bench conformance` prints these numbers.
"""


def page() -> str:
    """The whole page."""
    found = list(all_examined())
    rows = [f"| {_title(one.suite)} | {one.total} | {_counts(one)} |" for one in found]
    parts = [
        HEAD,
        "| scheduler | cases | equal | argued | outside | different |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    for one in found:
        parts += _suite(one)
    return "\n".join([*parts, ""])


def _title(suite: str) -> str:
    return TITLES.get(suite, suite)


def _counts(found: Found) -> str:
    return (
        f"{found.equal} | {found.argued.total()} | {found.outside.total()} | {len(found.different)}"
    )


def _suite(found: Found) -> Iterator[str]:
    yield f"\n## {_title(found.suite)}\n"
    if found.suite in QUOTA_SUITES:
        yield f"Every difference, with both outcomes: [Kueue's and Slurm's cases]({QUOTA_PAGE}).\n"
    for one in argued(found.suite):
        yield from _reason(one)
    if found.outside:
        yield "### Outside\n"
        yield from (f"* {what}: {count} cases" for what, count in sorted(found.outside.items()))


def _reason(one: Argued) -> Iterator[str]:
    yield f"### {one.reason} ({len(one.cases)})\n"
    yield f"{one.why}\n"
    yield from (f"* {name.split('/', 1)[1].strip()}" for name in one.cases)
    yield ""


if __name__ == "__main__":
    sys.exit(write_or_check({TARGET: page()}))
