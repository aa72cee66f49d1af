"""What the events of a ladder say: what was given back, what is kept, and how to come back. Pure."""

from __future__ import annotations

from typing import Any

from gpupool.allocations.idleness.ladder import IdleAct, IdleProgress, IdleStep, find_due
from gpupool.allocations.idleness.policy import IdleRule
from gpupool.allocations.idleness.units import IdleUnit, UnitActivity
from gpupool.base.units import NANOS_PER_SECOND, format_share


def describe_step(
    unit: IdleUnit, step: IdleStep, rule: IdleRule, seen: UnitActivity, now_ns: int
) -> dict[str, Any]:
    """Describe a step that is taken now: of which job, since when it is idle, and what comes next."""
    last_ns = seen.last_ns or now_ns
    taken = unit.state
    keep_until_ns = None if taken is None else taken.keep_until_ns
    progress = IdleProgress(last_ns, step.act, now_ns)
    following = find_due(rule.ladder, last_ns, keep_until_ns, progress)
    return {
        "name": unit.name,
        "act": str(step.act),
        "idle_seconds": (now_ns - last_ns) // NANOS_PER_SECOND,
        "share": format_share(unit.milli or unit.away_milli, unit.memory_bytes, unit.cards),
        "next_act": None if following is None else str(following.step.act),
        "next_seconds": None
        if following is None
        else max(0, following.at_ns - now_ns) // NANOS_PER_SECOND,
        "saved_ns": unit.saved_ns,
        "command": _find_command(unit, step, rule),
        "policies": list(rule.policies),
    }


def describe_return(unit: IdleUnit) -> dict[str, Any]:
    """Describe a job that has, or waits for, what it had before it was idle."""
    state = unit.state
    before = None if state is None else state.milli_before
    return {
        "name": unit.name,
        "act": "return",
        "gpu_milli": before or unit.milli,
        "command": f"gpupool resize {unit.name} --gpu {(before or unit.milli) / 1000:g}",
    }


def _find_command(unit: IdleUnit, step: IdleStep, rule: IdleRule) -> str:
    """Find the command by which a person comes back."""
    if step.act is IdleAct.STOP:
        return f"gpupool logs {unit.name}"
    if step.act is IdleAct.SUSPEND:
        return f"gpupool resume {unit.name}"
    if step.act is IdleAct.SHRINK:
        return f"gpupool resize {unit.name} --gpu {unit.milli / 1000:g}"
    return f"gpupool idle keep {unit.name}" if rule.keeps_per_day else f"gpupool show {unit.name}"
