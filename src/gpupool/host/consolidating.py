"""Whether a pool defragments itself, and what it may spend on that, from the environment of its server; else off."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.host.preemption import whole_number
from gpupool.scheduling.quiet_defrag import Budget

SWITCH = "GPUPOOL_DEFRAG"
HOURS = "GPUPOOL_DEFRAG_HOURS"
_MINUTES = "GPUPOOL_DEFRAG_LOST_GPU_MINUTES"
_FIELDS = {"GPUPOOL_DEFRAG_MOVES": "moves", "GPUPOOL_DEFRAG_QUIET": "quiet_seconds"}


def budget_from(environ: Mapping[str, str]) -> Budget | None:
    """The budget; None where it is off. Raises BadOption."""
    switch = environ.get(SWITCH) or "off"
    if switch not in ("on", "off"):
        raise BadOption(f"{SWITCH}={switch!r} is not known", hint="on or off")
    given: dict[str, Any] = {
        field: whole_number(name, environ[name]) for name, field in _FIELDS.items() if environ.get(name)
    }
    if environ.get(_MINUTES):
        given["lost_gpu_seconds"] = 60 * whole_number(_MINUTES, environ[_MINUTES])
    if environ.get(HOURS):
        given["hours"] = _hours(environ[HOURS])
    return replace(Budget(), **given) if switch == "on" else None


def _hours(text: str) -> tuple[int, int]:
    """`22-6`: from 22:00 until 6:00."""
    found = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text, re.ASCII)
    begin, end = (int(one) for one in found.groups()) if found else (0, 0)
    if begin == end or begin > 23 or end > 24:
        raise BadOption(f"{HOURS}={text!r} are no hours of a day", hint=f"write it like {HOURS}=22-6 (UTC)")
    return begin, end
