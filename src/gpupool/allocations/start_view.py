"""When a job that waits starts, as every answer tells it: a promise, or an estimate with its chance."""

from __future__ import annotations

from typing import Any

from gpupool.scheduling import wording_help
from gpupool.scheduling.snapshot import Start


def start_fields(start: Start | None, chance_pct: int | None) -> dict[str, Any]:
    """Fields of `wire.jobs` by these names."""
    if start is None:
        return {}
    return {
        "start": wording_help.start(start.by_ns, promised=start.firm, chance_pct=chance_pct),
        "start_ns": start.by_ns,
        "start_promised": start.firm,
        "start_chance_pct": chance_pct,
    }
