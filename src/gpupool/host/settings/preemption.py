"""Reads from the environment how much a pool may preempt; the scheduler has cautious defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.scheduling import DEFAULT_PREEMPTION_RULES, PreemptionRules

_FIELDS = {
    "GPUPOOL_PREEMPT_AFTER": "protected_s",
    "GPUPOOL_PREEMPT_GRACE": "grace_s",
    "GPUPOOL_PREEMPT_PER_HOUR": "per_hour",
}
OFF = "GPUPOOL_PREEMPT"
_SWITCHES = {OFF: "enabled", "GPUPOOL_PREEMPT_FAIR": "fair"}


def read_rules(environ: Mapping[str, str]) -> PreemptionRules:
    """Return the rules: whole seconds, and a number of jobs an hour.

    `GPUPOOL_PREEMPT=off` turns preemption off, `GPUPOOL_PREEMPT_FAIR=off` that for fair shares.

    Raises:
        BadOption: a value is not understood.
    """
    given: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        if environ.get(name):
            given[field] = parse_whole_number(name, environ[name])
    for name, field in _SWITCHES.items():
        given[field] = _is_on(name, environ.get(name) or "on")
    return replace(DEFAULT_PREEMPTION_RULES, **given)


def _is_on(name: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise BadOption(f"{name}={text!r} is not known", hint="on or off")
    return text == "on"


def parse_whole_number(name: str, text: str) -> int:
    """Return the value of a variable as a number; raises BadOption."""
    # `isdigit` alone accepts digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadOption(f"{name}={text!r} is no whole number", hint=f"write it like {name}=60")
    return int(text)
