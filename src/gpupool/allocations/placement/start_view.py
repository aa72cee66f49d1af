"""The start of a waiting job as answers show it: a promise, or an estimate with its chance."""

from __future__ import annotations

from typing import Any

from gpupool.scheduling import PlannedStart, format_start


def build_start_fields(start: PlannedStart | None, chance_pct: int | None) -> dict[str, Any]:
    """Build the fields of `wire.jobs` for a start.

    Args:
        start: The start; None gives no fields.
        chance_pct: How many of 100 such estimates came true; None if unknown or promised.
    """
    if start is None:
        return {}
    return {
        "start": format_start(start.latest_ns, promised=start.firm, chance_pct=chance_pct),
        "start_ns": start.latest_ns,
        "start_promised": start.firm,
        "start_chance_pct": chance_pct,
    }
