"""`gpupool whatif --tune`: the pool's history with other policies and quotas, what would help."""

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
from gpupool.base.units import NANOS_PER_SECOND, format_duration, parse_duration
from gpupool.cli.planning.pool_log import read_pages, read_policy
from gpupool.cli.planning.simulate import show_progress
from gpupool.cli.planning.whatif import parse_quota
from gpupool.terminal.context import CommandContext
from gpupool.terminal.interrupt import interrupted_by_sigterm
from gpupool.terminal.output import TableColumn, count_noun, format_table, print_data

if TYPE_CHECKING:
    from gpupool.simulation.studies.bootstrap import ConfidenceInterval
    from gpupool.simulation.studies.tune import ChangeEffect, TuningAdvice
    from gpupool.simulation.traces.history import EventHistory

#: About half of the way to the lowest priority, 19: jobs of this machine go first.
NICE = 10
#: Of each process: what it may hold, so that a long history takes no memory from jobs.
MOST_BYTES = 4 << 30

#: A process may raise its own score without any right; proc(5).
_OOM_SCORE = Path("/proc/self/oom_score_adj")
#: proc(5): the kernel ends this process before any other when memory runs out.
_FIRST_TO_GO = "1000"

#: One worker for so many processors of this machine, which are the jobs' first.
_FEW_CORES = 2


def run(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.simulation.replay.parallel import use_kernel
    from gpupool.simulation.studies.bootstrap import compute_percentile
    from gpupool.simulation.studies.tune import advise_changes
    from gpupool.simulation.studies.tune_changes import POLICIES

    _refuse_others(options)
    with suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        use_kernel(kernel_path())
    # Without --policy those that are worth a try; each change is replayed alone.
    policies = tuple(options.policy.split(",")) if options.policy else POLICIES
    quotas = dict(map(parse_quota, options.quota))
    with interrupted_by_sigterm(), show_progress(context, "replaying the history") as told:
        history, name, policy = _read_history(options, context)
        trace = history.build_trace(name)
        if not trace.nodes:
            raise BadTrace(
                f"{name} tells of no cards",
                hint="give the whole log: gpupool events --after 0 -o json",
            )
        take_second_place()
        advice = advise_changes(
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
    # Recorded waits beside the replayed ones: where they differ much, the replay misses a cause.
    measured = {
        f"p{part}_seconds": percentile_of(recorded, part, compute_percentile) for part in (50, 95)
    }
    found = make_document(advice, {"jobs": len(recorded), **measured})
    if options.output != "table":
        print_data(found, options.output)
    else:
        sys.stdout.write(format_advice(found) + "\n")
    return 0


def take_second_place() -> None:
    """Let all else on this machine go first, and bound what this process holds; for good."""
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    # The hard limit may be lower already, and only root raises it.
    most = MOST_BYTES if hard == resource.RLIM_INFINITY else min(MOST_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    with suppress(OSError):  # a container may forbid it; the limit above holds
        _OOM_SCORE.write_text(_FIRST_TO_GO)


def _refuse_others(options: argparse.Namespace) -> None:
    for name in ("add", "remove"):
        if getattr(options, name):
            raise BadOption(
                f"--{name} and --tune do not go together", hint=f"gpupool whatif --{name} …"
            )


def _read_history(
    options: argparse.Namespace, context: CommandContext
) -> tuple[EventHistory, str, str]:
    """Return the events that count, where they are from, and the policy that decides."""
    from gpupool.simulation.studies.study import DEFAULT_POLICY
    from gpupool.simulation.traces.history import EventHistory

    history = EventHistory(time.time_ns() - int(parse_duration(options.history)) * NANOS_PER_SECOND)
    if options.log:
        history = EventHistory(0)
        history.add_events(_read_file(options.log))
        return history, options.log, DEFAULT_POLICY
    policy = read_policy(context)
    for page in read_pages(context):
        history.add_events(page)
    return history, "the pool's log", policy


def _read_file(path: str) -> Iterator[dict[str, Any]]:
    from gpupool.simulation.traces.nodes import read_text

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


def make_document(advice: TuningAdvice, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything, ready for JSON; waits are seconds, a difference is after less before."""
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
        "changes": [_describe_change(one) for one in advice.effects],
        "left_out": list(advice.left_out),
    }


def _describe_change(effect: ChangeEffect) -> dict[str, Any]:
    return {
        "change": effect.words,
        "verdict": effect.verdict,
        "p50_seconds": round(effect.p50, 3),
        "p95_seconds": round(effect.p95, 3),
        "p50_difference": _describe_interval(effect.p50_difference),
        "p95_difference": _describe_interval(effect.p95_difference),
        "evictions": effect.evictions,
        "never_started": effect.unstarted,
    }


def _describe_interval(interval: ConfidenceInterval) -> dict[str, float]:
    return {name: round(value, 3) for name, value in interval._asdict().items()}


def format_advice(found: Mapping[str, Any]) -> str:
    """Format what was looked at, each change with its interval, and what the numbers leave out."""
    history = found["history"]
    before = found["before"]
    recorded = history["recorded"]
    lines = [
        (
            f"{_describe_days(history)} of history: {count_noun(history['jobs'], 'job')}, "
            f"{_describe_blocks(history)}"
        ),
        f"as it is (policy {before['policy']}), replayed: {_describe_waits(before)}",
    ]
    if recorded["jobs"]:
        lines.append(
            f"as the pool recorded it, {count_noun(recorded['jobs'], 'single job')}: "
            f"{_describe_waits(recorded)}"
        )
    lines += [
        "",
        format_table(found["changes"], _COLUMNS)
        if found["changes"]
        else "no change was tried to the end",
    ]
    if found["left_out"]:
        lines.append(f"not within the time or the memory: {', '.join(found['left_out'])}")
    sure = 100 * found["confidence"]
    lines.append(
        f"intervals hold with {sure:g} % for all rows together, for pools whose days are like these"
    )
    return "\n".join(lines)


def _describe_days(history: Mapping[str, Any]) -> str:
    days = history["days"]
    whole = history["whole_days"]
    if days == whole:
        return f"{days:g} days"
    return f"the last {days:g} days of {whole:g}, as the time allows,"


def _describe_blocks(history: Mapping[str, Any]) -> str:
    return f"in {history['blocks']} blocks of {history['block_hours']} h"


def _describe_waits(side: Mapping[str, Any]) -> str:
    return f"median wait {format_duration(side['p50_seconds'])}, 95 % {format_duration(side['p95_seconds'])}"


def _difference_cell(name: str) -> Any:
    return lambda row: " to ".join(_format_signed(row[name][end]) for end in ("low", "high"))


def _format_signed(seconds: float) -> str:
    sign = ""  # less than a second is printed as 0s, which has none
    if seconds <= -1:
        sign = "-"
    elif seconds >= 1:
        sign = "+"
    return sign + format_duration(abs(seconds))


def _wait_cell(name: str) -> Any:
    return lambda row: format_duration(row[name])


_COLUMNS = (
    TableColumn("CHANGE", lambda row: row["change"]),
    TableColumn("WAITS", lambda row: row["verdict"]),
    TableColumn("MEDIAN", _wait_cell("p50_seconds"), right=True),
    TableColumn("DIFFERENCE", _difference_cell("p50_difference"), right=True),
    TableColumn("95 %", _wait_cell("p95_seconds"), right=True),
    TableColumn("DIFFERENCE", _difference_cell("p95_difference"), right=True),
    TableColumn("EVICTIONS", lambda row: row["evictions"], right=True),
)
