"""Reads from the environment how many jobs of one user and of one tenant may wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.allocations.submission.queue_limits import PendingLimits
from gpupool.host.settings.preemption import parse_whole_number

_FIELDS = {
    "GPUPOOL_MAX_PENDING_PER_USER": "per_user",
    "GPUPOOL_MAX_PENDING_PER_TENANT": "per_tenant",
}


def read_limits(environ: Mapping[str, str]) -> PendingLimits:
    """Return the limits in entries of the queue; raises BadOption."""
    given: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        if environ.get(name):
            given[field] = parse_whole_number(name, environ[name])
    return replace(PendingLimits(), **given)
