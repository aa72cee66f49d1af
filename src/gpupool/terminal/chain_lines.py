"""What is said of dependencies, attempts and requeues of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.base.units import format_duration
from gpupool.terminal.output import count_noun


def describe_after(one: Mapping[str, Any]) -> str | None:
    """Format `job prep (ok): done, array sweep (any): open`; None without dependencies."""
    ends = []
    for end in one.get("after", ()):
        outcome = end["ending"] or "open"
        ends.append(f"{end['kind']} {end['job']} ({end['condition']}): {outcome}")
    return ", ".join(ends) or None


def describe_attempt(job: Mapping[str, Any]) -> str | None:
    """Format `2 of 3`; None for a job that is not tried again."""
    retries = job.get("retries", 0)
    return f"{job['attempt']} of {retries + 1}" if retries else None


def list_attempts(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the earlier attempts of a job, each as a label and how it ended."""
    found = []
    for one in job.get("attempts", ()):
        lasted = ""
        if one["started_ns"] is not None:
            lasted = f" after {format_duration((one['ended_ns'] - one['started_ns']) / 1e9)}"
        found.append((f"attempt {one['number']}", f"{one['state']}: {one['reason']}{lasted}"))
    return found


def describe_requeue(job: Mapping[str, Any]) -> str | None:
    """Describe whether a job may be sent back to wait, and how often it was; None where neither."""
    times = f"{count_noun(job['preemptions'], 'time')} so far" if job["preemptions"] else ""
    allowed = "yes" if job["preemptible"] else ""
    if not allowed and job["requeue"]:
        allowed = "only when it is lost"
    return ", ".join(part for part in (allowed, times) if part) or None
