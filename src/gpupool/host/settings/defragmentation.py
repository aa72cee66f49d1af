"""Reads from the environment whether a pool defragments itself, and what that may cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.host.settings.preemption import parse_whole_number
from gpupool.scheduling import DefragmentBudget

SWITCH = "GPUPOOL_DEFRAG"
HOURS = "GPUPOOL_DEFRAG_HOURS"
_MINUTES = "GPUPOOL_DEFRAG_LOST_GPU_MINUTES"
_FIELDS = {"GPUPOOL_DEFRAG_MOVES": "moves", "GPUPOOL_DEFRAG_QUIET": "quiet_seconds"}


def read_budget(environ: Mapping[str, str]) -> DefragmentBudget | None:
    """Return the budget; None where defragmentation is off, as it is by default.

    Raises:
        BadOption: a value is not understood.
    """
    switch = environ.get(SWITCH) or "off"
    if switch not in ("on", "off"):
        raise BadOption(f"{SWITCH}={switch!r} is not known", hint="on or off")
    given: dict[str, Any] = {}
    # Values are checked even where the switch is off: a typing error shows at the start.
    for name, field in _FIELDS.items():
        if environ.get(name):
            given[field] = parse_whole_number(name, environ[name])
    if environ.get(_MINUTES):
        given["lost_gpu_seconds"] = 60 * parse_whole_number(_MINUTES, environ[_MINUTES])
    if environ.get(HOURS):
        given["hours"] = _parse_hours(environ[HOURS])
    return replace(DefragmentBudget(), **given) if switch == "on" else None


def _parse_hours(text: str) -> tuple[int, int]:
    """`22-6`: from 22:00 until 6:00."""
    found = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text, re.ASCII)
    begin, end = (int(one) for one in found.groups()) if found else (0, 0)
    if begin == end or begin > 23 or end > 24:
        raise BadOption(
            f"{HOURS}={text!r} are no hours of a day", hint=f"write it like {HOURS}=22-6 (UTC)"
        )
    return begin, end
