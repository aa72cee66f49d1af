"""Cases of KAI-Scheduler, Kueue and Slurm on the engine: how many end as there, and how many differ for a reason."""

from __future__ import annotations

import json
from pathlib import Path

from bench.rows import Row
from tests.conformance.table import Found, all_examined

NAME = "conformance"
COMMAND = "python -m bench conformance"


def run(out: Path) -> list[Row]:
    found = list(all_examined())
    record = {
        one.suite: {
            "cases": one.total,
            "equal": one.equal,
            "argued": dict(one.argued),
            "outside": dict(one.outside),
            "different": one.different,
            "plans_at_most": one.rounds,
        }
        for one in found
    }
    (out / "conformance-cases.json").write_text(json.dumps(record, indent=1) + "\n")
    return [row for one in found for row in _rows(one)]


def _rows(found: Found) -> list[Row]:
    """Three counts, of which the last must be none."""
    name, note = found.suite, f"of {found.total} cases"
    outside = f"{note}; {found.outside.total()} of these ask for what gpupool does not have"
    return [
        Row(f"{name}: equal", "", found.equal, COMMAND, note=note),
        Row(f"{name}: argued", "", found.argued.total() + found.outside.total(), COMMAND, note=outside),
        Row(f"{name}: different", "", len(found.different), COMMAND, limit=0, note="; ".join(found.different)[:500]),
    ]
