"""What `show JOB` prints of a job that was suspended, or got another share than it asked for."""

from __future__ import annotations

from typing import Any

from gpupool.base.units import format_duration
from gpupool.terminal.listing import describe_instant, describe_memory


def describe_changes(job: dict[str, Any]) -> list[tuple[str, object]]:
    """Describe what policies and suspends did with a job."""
    # A server from before the field has none.
    advice = job.get("advice")
    rows = [] if advice is None else [("advice", advice["text"])]
    return [*describe_suspension(job), *rows]


def describe_suspension(job: dict[str, Any]) -> list[tuple[str, object]]:
    """Describe since when a job is suspended, what that takes of the host, and what failed."""
    agreed = job.get("idle_seconds")
    rows = list[tuple[str, object]]()
    if agreed:
        rows.append(("when idle", f"suspended for other claims after {format_duration(agreed)}"))
    suspension = job.get("suspension")
    if not suspension:
        return rows
    parts = ["because it was idle"] if suspension["beneficiary"] else []
    if suspension["since_ns"] is not None:
        parts.append(f"since {describe_instant(suspension['since_ns'])}")
    if suspension["host_bytes"] is not None:
        parts.append(f"{describe_memory(suspension['host_bytes'])} in main memory")
    if suspension["beneficiary"] and suspension["since_ns"] is not None:
        is_wanted = suspension["wanted_ns"] is not None
        parts.append("waits for room" if is_wanted else "wakes with its next call of the driver")
    if suspension["note"]:
        parts.append(suspension["note"])
    return [*rows, ("suspended", "; ".join(parts) or "its memory is on the way")]
