"""How much may wait of one user and of one tenant, from the environment of the pool's server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.allocations.limits import PendingLimits
from gpupool.host.preemption import whole_number

_FIELDS = {"GPUPOOL_MAX_PENDING_PER_USER": "per_user", "GPUPOOL_MAX_PENDING_PER_TENANT": "per_tenant"}


def limits_from(environ: Mapping[str, str]) -> PendingLimits:
    """Entries of the queue at most; what is not given is the default. Raises BadOption."""
    given: dict[str, Any] = {
        field: whole_number(name, environ[name]) for name, field in _FIELDS.items() if environ.get(name)
    }
    return replace(PendingLimits(), **given)
