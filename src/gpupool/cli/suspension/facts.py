"""What `show JOB` prints of a job that was suspended."""

from __future__ import annotations

from typing import Any

from gpupool.terminal.listing import describe_instant, describe_memory


def describe_suspension(job: dict[str, Any]) -> list[tuple[str, object]]:
    """Describe since when a job is suspended, what that takes of the host, and what failed."""
    suspension = job.get("suspension")
    if not suspension:
        return []
    parts = []
    if suspension["since_ns"] is not None:
        parts.append(f"since {describe_instant(suspension['since_ns'])}")
    if suspension["host_bytes"] is not None:
        parts.append(f"{describe_memory(suspension['host_bytes'])} in main memory")
    if suspension["note"]:
        parts.append(suspension["note"])
    return [("suspended", "; ".join(parts) or "its memory is on the way")]
