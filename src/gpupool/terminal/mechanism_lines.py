"""How the mechanism of a claim is printed: the choice, what it enforces, and rejected mechanisms."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Rejected mechanisms that are printed; `-o json` has all.
ROWS = 12


def format_shares(plan: Mapping[str, Any]) -> str:
    """Format what a job would get, and how many there are: `2 × [8 × [1.00 GPU ...]]`."""
    share = str(plan["share"])
    return f"{plan['count']} × [{share}]" if plan["count"] > 1 else share


def format_plan(plan: Mapping[str, Any]) -> list[str]:
    """Format the lines of a plan, the choice first."""
    from gpupool.terminal.output import clean_text

    lines = []
    if plan["mechanism"] is None:
        lines.append("mechanism: none now")
    else:
        why = clean_text(plan["mechanism_why"])
        lines.append(f"mechanism: {plan['mechanism']}" + (f": {why}" if why else ""))
    rejected = plan["rejected"]
    for row in rejected[:ROWS]:
        advice = f" ({row['advice']})" if row["advice"] else ""
        kind = f"{row['cards']} × {clean_text(row['model'])}"
        lines.append(f"not {row['mechanism']} on {kind}: {clean_text(row['reason'])}{advice}")
    more = len(rejected) - ROWS
    if more > 0:
        lines.append(f"and {more} more: -o json has all")
    return lines
