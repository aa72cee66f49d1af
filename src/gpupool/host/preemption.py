"""How hard a pool may preempt, from the environment of its server; without it, the scheduler's own gentle rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.scheduling.victims import GENTLE, PreemptionRules

_FIELDS = {
    "GPUPOOL_PREEMPT_AFTER": "protected_s",
    "GPUPOOL_PREEMPT_GRACE": "grace_s",
    "GPUPOOL_PREEMPT_PER_HOUR": "per_hour",
}
OFF = "GPUPOOL_PREEMPT"
_SWITCHES = {OFF: "enabled", "GPUPOOL_PREEMPT_FAIR": "fair"}


def rules_from(environ: Mapping[str, str]) -> PreemptionRules:
    """Whole seconds, and a number of jobs an hour; `GPUPOOL_PREEMPT=off` preempts nobody, `GPUPOOL_PREEMPT_FAIR=off`
    nobody for a fair share. Raises BadOption."""
    given: dict[str, Any] = {
        field: whole_number(name, environ[name]) for name, field in _FIELDS.items() if environ.get(name)
    }
    switches: dict[str, Any] = {field: _is_on(name, environ.get(name) or "on") for name, field in _SWITCHES.items()}
    return replace(GENTLE, **switches, **given)


def _is_on(name: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise BadOption(f"{name}={text!r} is not known", hint="on or off")
    return text == "on"


def whole_number(name: str, text: str) -> int:
    """The value of a variable. Raises BadOption."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadOption(f"{name}={text!r} is no whole number", hint=f"write it like {name}=60")
    return int(text)
