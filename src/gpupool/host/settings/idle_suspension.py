"""Reads from the environment whether a pool suspends idle jobs, and how much memory it lends twice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gpupool.base.errors import BadOption
from gpupool.host.settings.preemption import parse_whole_number
from gpupool.model.suspension import UNIT_FACTOR, USUAL_IDLE_RULES, IdleSuspensionRules

FACTOR: Final = "GPUPOOL_SUSPEND_FACTOR"
FLOOR: Final = "GPUPOOL_SUSPEND_IDLE"
#: Above it the main memory of no machine holds what the cards lend.
_MOST: Final = 100 * UNIT_FACTOR
_NUMBER: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,3}))?", re.ASCII)


def read_idle_rules(environ: Mapping[str, str]) -> IdleSuspensionRules:
    """Return the rules: a factor such as 1.5, and whole seconds of idleness at least.

    Raises:
        BadOption: a value is not understood.
    """
    rules = USUAL_IDLE_RULES
    if environ.get(FACTOR):
        rules = replace(rules, memory_factor_milli=_parse_factor(environ[FACTOR]))
    if environ.get(FLOOR):
        rules = replace(rules, floor_seconds=max(1, parse_whole_number(FLOOR, environ[FLOOR])))
    return rules


def _parse_factor(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    milli = 0
    if found is not None:
        milli = int(found[1]) * UNIT_FACTOR + int((found[2] or "").ljust(3, "0"))
    if not UNIT_FACTOR <= milli <= _MOST:
        raise BadOption(
            f"{FACTOR}={text!r} is no factor from 1 to 100", hint=f"write it like {FACTOR}=1.5"
        )
    return milli
