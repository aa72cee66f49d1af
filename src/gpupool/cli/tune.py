"""`gpupool whatif --tune`: the pool's history replayed with other policies and quotas, and what would have helped."""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import BadOption, BadTrace
from gpupool.base.units import format_duration, parse_duration
from gpupool.cli.context import Context
from gpupool.cli.interrupt import interrupted_by_sigterm
from gpupool.cli.output import Column, many, print_data, table
from gpupool.cli.pool_log import pages_of, policy_of
from gpupool.cli.simulate import progress
from gpupool.cli.whatif import parse_quota

if TYPE_CHECKING:
    from gpupool.simulation.bootstrap import Interval
    from gpupool.simulation.history import History
    from gpupool.simulation.tune import Advice, Effect

NICE = 10
MOST_BYTES = 4 << 30
"""Of each process: what it may hold, so that a long history takes no memory from jobs."""

_OOM_SCORE = Path("/proc/self/oom_score_adj")
_FIRST_TO_GO = "1000"
"""proc(5): the kernel ends this process before any other when memory runs out."""

_FEW_CORES = 2


def run(options: argparse.Namespace, context: Context) -> int:
    from gpupool.simulation.bootstrap import percentile
    from gpupool.simulation.parallel import use_kernel
    from gpupool.simulation.tune import tune
    from gpupool.simulation.tune_changes import POLICIES

    _refuse_others(options)
    with suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        use_kernel(kernel_path())
    policies = tuple(options.policy.split(",")) if options.policy else POLICIES
    quotas = dict(map(parse_quota, options.quota))
    with interrupted_by_sigterm(), progress(context, "replaying the history") as told:
        history, name, policy = _history(options, context)
        trace = history.trace(name)
        if not trace.nodes:
            raise BadTrace(f"{name} tells of no cards", hint="give the whole log: gpupool events --after 0 -o json")
        take_second_place()
        advice = tune(
            trace,
            trace.nodes,
            policy,
            told,
            policies=policies,
            quotas=quotas,
            seconds=float(parse_duration(options.within)),
            workers=max(1, len(os.sched_getaffinity(0)) // _FEW_CORES),
        )
    recorded = sorted(history.waits_ns)
    measured = {f"p{part}_seconds": percentile_of(recorded, part, percentile) for part in (50, 95)}
    found = document(advice, {"jobs": len(recorded), **measured})
    if options.output != "table":
        print_data(found, options.output)
    else:
        sys.stdout.write(text(found) + "\n")
    return 0


def take_second_place() -> None:
    """From now on everything else on this machine goes first, and what this process holds is bounded."""
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MOST_BYTES if hard == resource.RLIM_INFINITY else min(MOST_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    with suppress(OSError):  # a container may forbid it; the limit above holds
        _OOM_SCORE.write_text(_FIRST_TO_GO)


def _refuse_others(options: argparse.Namespace) -> None:
    for name in ("add", "remove"):
        if getattr(options, name):
            raise BadOption(f"--{name} and --tune do not go together", hint=f"gpupool whatif --{name} …")


def _history(options: argparse.Namespace, context: Context) -> tuple[History, str, str]:
    """The events that count, where they are from, and the policy that decides."""
    from gpupool.simulation.history import History
    from gpupool.simulation.study import DEFAULT_POLICY

    history = History(time.time_ns() - int(parse_duration(options.history)) * 10**9)
    if options.log:
        history = History(0)
        history.take(_of_file(options.log))
        return history, options.log, DEFAULT_POLICY
    policy = policy_of(context)
    for page in pages_of(context):
        history.take(page)
    return history, "the pool's log", policy


def _of_file(path: str) -> Iterator[dict[str, Any]]:
    from gpupool.simulation.nodes import read_text

    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            try:
                event = json.loads(line)
            except ValueError as error:
                raise BadTrace(f"{path}, line {number}: no JSON ({error})", line=number) from None
            yield event


def percentile_of(waits_ns: list[int], part: int, percentile: Any) -> float | None:
    import numpy as np

    return round(percentile(np.array(waits_ns), part) / 1e9, 3) if waits_ns else None


# --- what is told ---------------------------------------------------------------------------------


def document(advice: Advice, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, ready for JSON; waits are in seconds, a difference is after less before."""
    return {
        "history": {
            "jobs": advice.jobs,
            "days": advice.days,
            "whole_days": advice.whole_days,
            "blocks": advice.blocks,
            "block_hours": advice.block_hours,
            "recorded": dict(recorded),
        },
        "before": {
            "policy": advice.policy,
            "p50_seconds": round(advice.p50, 3),
            "p95_seconds": round(advice.p95, 3),
            "evictions": advice.evictions,
        },
        "confidence": advice.level,
        "changes": [_change(one) for one in advice.effects],
        "left_out": list(advice.left_out),
    }


def _change(effect: Effect) -> dict[str, Any]:
    return {
        "change": effect.words,
        "verdict": effect.verdict,
        "p50_seconds": round(effect.p50, 3),
        "p95_seconds": round(effect.p95, 3),
        "p50_difference": _interval(effect.p50_difference),
        "p95_difference": _interval(effect.p95_difference),
        "evictions": effect.evictions,
        "never_started": effect.unstarted,
    }


def _interval(interval: Interval) -> dict[str, float]:
    return {name: round(value, 3) for name, value in interval._asdict().items()}


def text(found: Mapping[str, Any]) -> str:
    """What was looked at, each change with its interval, and what the numbers leave out."""
    history, before, recorded = found["history"], found["before"], found["history"]["recorded"]
    lines = [
        f"{_days(history)} of history: {many(history['jobs'], 'job')}, {_blocks(history)}",
        f"as it is (policy {before['policy']}), replayed: {_waits(before)}",
    ]
    if recorded["jobs"]:
        lines.append(f"as the pool recorded it, {many(recorded['jobs'], 'single job')}: {_waits(recorded)}")
    lines += ["", table(found["changes"], _COLUMNS) if found["changes"] else "no change was tried to the end"]
    if found["left_out"]:
        lines.append(f"not within the time or the memory: {', '.join(found['left_out'])}")
    sure = 100 * found["confidence"]
    lines.append(f"intervals hold with {sure:g} % for all rows together, for pools whose days are like these")
    return "\n".join(lines)


def _days(history: Mapping[str, Any]) -> str:
    days, whole = history["days"], history["whole_days"]
    return f"{days:g} days" if days == whole else f"the last {days:g} days of {whole:g}, as the time allows,"


def _blocks(history: Mapping[str, Any]) -> str:
    return f"in {history['blocks']} blocks of {history['block_hours']} h"


def _waits(side: Mapping[str, Any]) -> str:
    return f"median wait {format_duration(side['p50_seconds'])}, 95 % {format_duration(side['p95_seconds'])}"


def _difference(name: str) -> Any:
    return lambda row: " to ".join(_signed(row[name][end]) for end in ("low", "high"))


def _signed(seconds: float) -> str:
    return ("-" if seconds <= -1 else "+" if seconds >= 1 else "") + format_duration(abs(seconds))


def _wait(name: str) -> Any:
    return lambda row: format_duration(row[name])


_COLUMNS = (
    Column("CHANGE", lambda row: row["change"]),
    Column("WAITS", lambda row: row["verdict"]),
    Column("MEDIAN", _wait("p50_seconds"), right=True),
    Column("DIFFERENCE", _difference("p50_difference"), right=True),
    Column("95 %", _wait("p95_seconds"), right=True),
    Column("DIFFERENCE", _difference("p95_difference"), right=True),
    Column("EVICTIONS", lambda row: row["evictions"], right=True),
)
