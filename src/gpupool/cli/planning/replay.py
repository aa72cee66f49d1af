"""`gpupool replay`: a pool's own log through its scheduler, and the decisions that would differ."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import BadOption, BadTrace
from gpupool.base.units import NANOS_PER_SECOND, format_duration, parse_since
from gpupool.cli.planning.playback import play_trace
from gpupool.cli.planning.pool_log import read_pages, read_policy
from gpupool.cli.planning.recording import record_lives, refuse_overwriting
from gpupool.cli.planning.simulate import show_progress
from gpupool.cli.planning.tune import take_second_place
from gpupool.terminal.context import CommandContext
from gpupool.terminal.interrupt import interrupted_by_sigterm
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, count_noun, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, path_of

if TYPE_CHECKING:
    from gpupool.simulation.studies.retrospect import JobComparison, Retrospect
    from gpupool.simulation.traces.eventlog import EventLog, LoggedStart

#: Different decisions that the table names; -o json has all of them.
SHOWN = 20


def register(parser: CommandParser) -> None:
    parser.about = """
    Reads the events of the pool (or of a file), lets the same jobs come again at their instants and run as long as
    they did, and compares each first start with the one in the log: same cards at the same instant (within 1 s),
    elsewhere, earlier, later, never. The replay begins with the log, so that the pool is as full as it was; --from and
    --to choose the jobs that are compared, by when they were submitted. From the first different decision on the two
    pools differ, and later differences may follow from it. Changes nothing. Only an admin reads the jobs of all
    tenants. Nodes count as always there, and nothing of reservations and changed priorities is replayed.

    With a TRACE (sample, synthetic, a .csv of jobs, an event log; see gpupool simulate) no log is compared: the trace
    is played on the terminal while the scheduler decides, --speed times as fast as it happened. Needs no pool.
    """
    parser.examples = [
        "gpupool replay",
        "gpupool replay sample --speed 600",
        "gpupool replay --policy default,fgd,binpack --from 7d",
        "gpupool replay --from 2026-11-20T08:00 --to 2026-11-20T18:00 --record day.csv",
        (
            "gpupool events --after 0 -o json > events.jsonl; gpupool replay --log events.jsonl --page "
            "day.html"
        ),
    ]
    add = parser.add_argument
    add("trace", nargs="?", metavar="TRACE", help="play this trace instead: sample, ...")
    add("--speed", metavar="N", help="of a TRACE: so many times as fast (default: at once)")
    add(
        "--nodes", metavar="FILE|SPEC", help="of a TRACE: nodes, as for simulate (default: its own)"
    )
    add(
        "--log",
        metavar="FILE",
        type=path_of("--log"),
        help="events that were saved: gpupool events --after 0 -o json (default: the pool's)",
    )
    add("--policy", metavar="NAME,...", help="policies to decide by (default: the pool's own)")
    add(
        "--from",
        dest="since",
        metavar="TIME",
        help="jobs submitted from then on: 2h (ago), 2026-11-20, ISO",
    )
    add(
        "--to",
        dest="until",
        metavar="TIME",
        help="jobs submitted before then; later ones do not come",
    )
    add(
        "--record",
        metavar="FILE",
        type=path_of("--record"),
        help="write every decision there (.csv or .parquet), as simulate does",
    )
    add(
        "--page",
        metavar="FILE",
        type=path_of("--page"),
        help="draw the replay of one policy there, one HTML page",
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.trace is not None:
        return play_trace(options)
    if options.speed is not None or options.nodes is not None:
        raise BadOption(
            "--speed and --nodes are of a TRACE that is played",
            hint="gpupool replay sample --speed 600",
        )
    from gpupool.simulation.replay.foreknowledge import ONLINE
    from gpupool.simulation.replay.parallel import use_kernel
    from gpupool.simulation.studies.retrospect import compare_starts, cut_trace
    from gpupool.simulation.studies.study import FIRST_SEED, StudyQuestion

    with suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        use_kernel(kernel_path())
    # Before the pool is asked: a replay may take an hour, and the log would be lost at its end.
    refuse_overwriting(options.record, options.log)
    from_ns = _instant_ns(options.since)
    to_ns = _instant_ns(options.until)
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise BadOption(
            f"--from {options.since} is not before --to {options.until}", hint="--from 7d --to 1d"
        )
    found: dict[str, Retrospect] = {}
    with interrupted_by_sigterm(), show_progress(context, "replaying the log") as told:
        log, policy = _read_log(options, context)
        trace = cut_trace(log, to_ns)
        if not trace.nodes:
            raise BadTrace(
                f"{trace.name} tells of no cards",
                hint="give the whole log: gpupool events --after 0 -o json",
            )
        take_second_place()
        policies = tuple(dict.fromkeys(options.policy.split(","))) if options.policy else (policy,)
        question = StudyQuestion(trace.nodes, policies, (FIRST_SEED,), trace, knowledge=ONLINE)

        def compare_life(case: Any, rows: Any) -> None:
            found[case.policy] = compare_starts(case.policy, log, trace, rows, from_ns)

        record_lives(question, told, options.record, options.page, compare_life)
    replays = [found[name] for name in policies]
    if options.output != "table":
        print_data(make_document(trace.name, replays), options.output)
    else:
        sys.stdout.write(format_replays(trace.name, replays) + "\n")
    return 0


def _read_log(options: argparse.Namespace, context: CommandContext) -> tuple[EventLog, str]:
    """Return the log, and the policy that decides."""
    from gpupool.simulation.studies.study import DEFAULT_POLICY
    from gpupool.simulation.traces.eventlog import read_log
    from gpupool.simulation.traces.history import EventHistory
    from gpupool.simulation.traces.nodes import read_text

    if options.log:
        return read_log(options.log, read_text(options.log)), DEFAULT_POLICY
    policy = read_policy(context)
    history = EventHistory(0)
    for page in read_pages(context):
        history.add_events(page)
    return history.build_log("the pool's log"), policy


def _instant_ns(text: str | None) -> int | None:
    if text is None:
        return None
    now = datetime.fromtimestamp(time.time_ns() / NANOS_PER_SECOND, UTC)
    return int(parse_since(text, now).timestamp()) * NANOS_PER_SECOND


# --- what is told ---------------------------------------------------------------------------------


def make_document(name: str, replays: Sequence[Retrospect]) -> dict[str, Any]:
    """Return everything, ready for JSON."""
    return {
        "log": name,
        "jobs": len(replays[0].jobs),
        "replays": [_describe_replay(one) for one in replays],
    }


def _describe_replay(one: Retrospect) -> dict[str, Any]:
    return {
        **_summarize_replay(one),
        "different": [_describe_job(job) for job in one.differing_jobs],
    }


def _summarize_replay(one: Retrospect) -> dict[str, Any]:
    from gpupool.simulation.studies.retrospect import VERDICTS

    row: dict[str, Any] = {"policy": one.policy}
    for verdict in VERDICTS:
        row[verdict] = one.verdict_counts[verdict]
    return row | _measure_waits(one)


def _measure_waits(one: Retrospect) -> dict[str, float | None]:
    """Measure percentiles of waits on both sides, in seconds; None where so many never start."""
    from gpupool.simulation.replay.measure import summarize_waits

    replayed = []
    for job in one.jobs:
        if job.replayed is not None:
            replayed.append(job.replayed.at_ns - job.submitted_ns)
    log = summarize_waits([job.logged.at_ns - job.submitted_ns for job in one.jobs], 0)
    then = summarize_waits(replayed, len(one.jobs) - len(replayed))
    return {"log_p50": log.p50, "log_p95": log.p95, "p50": then.p50, "p95": then.p95}


def _describe_job(job: JobComparison) -> dict[str, Any]:
    return {
        "job": job.job,
        "tenant": job.tenant,
        "verdict": job.verdict,
        "submitted_ns": job.submitted_ns,
        "log": _describe_start(job.logged),
        "replay": None if job.replayed is None else _describe_start(job.replayed),
        "reason": job.reason,
    }


def _describe_start(start: LoggedStart) -> dict[str, Any]:
    return {"at_ns": start.at_ns, "node": start.node, "cards": list(start.cards)}


def format_replays(name: str, replays: Sequence[Retrospect]) -> str:
    """Format a row per policy; of one policy also the first decisions that differ."""
    jobs = replays[0].jobs
    submitted = [job.submitted_ns for job in jobs]
    begin = describe_instant(min(submitted))
    end = describe_instant(max(submitted))
    lines = [f"{name}: {count_noun(len(jobs), 'job')} submitted {begin} to {end}"]
    lines += ["", format_table([_summarize_replay(one) for one in replays], _SUMMARY)]
    if len(replays) > 1:
        return "\n".join(lines)
    different = replays[0].differing_jobs
    if not different:
        return "\n".join([*lines, "", "every job starts when and where it did"])
    lines += ["", format_table([_describe_job(job) for job in different[:SHOWN]], _DIFFERENT)]
    if len(different) > SHOWN:
        lines.append(f"and {len(different) - SHOWN} more: -o json has all of them")
    return "\n".join(lines)


def _wait_cell(name: str) -> Any:
    return lambda row: None if row[name] is None else format_duration(row[name])


def _describe_shift(row: Any) -> str | None:
    if row["verdict"] not in ("earlier", "later"):
        return None
    # Only a start at another instant has a distance in time.
    apart = row["replay"]["at_ns"] - row["log"]["at_ns"]
    return ("-" if apart < 0 else "+") + format_duration(abs(apart) / NANOS_PER_SECOND)


def _cards_cell(side: str) -> Any:
    return lambda row: (
        row[side] and f"{row[side]['node']}:{','.join(map(str, row[side]['cards']))}".rstrip(":")
    )


_SUMMARY = (
    TableColumn("POLICY", lambda row: row["policy"]),
    TableColumn("SAME", lambda row: row["same"], right=True),
    TableColumn("ELSEWHERE", lambda row: row["elsewhere"], right=True),
    TableColumn("EARLIER", lambda row: row["earlier"], right=True),
    TableColumn("LATER", lambda row: row["later"], right=True),
    TableColumn("NEVER", lambda row: row["never"], right=True),
    TableColumn("MEDIAN WAIT IN LOG", _wait_cell("log_p50"), right=True),
    TableColumn("REPLAYED", _wait_cell("p50"), right=True),
    TableColumn("95 % IN LOG", _wait_cell("log_p95"), right=True),
    TableColumn("REPLAYED", _wait_cell("p95"), right=True),
)
_DIFFERENT = (
    TableColumn("STARTED", lambda row: describe_instant(row["log"]["at_ns"])),
    TableColumn("JOB", lambda row: row["job"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("REPLAY", lambda row: row["verdict"]),
    TableColumn("BY", _describe_shift, right=True),
    TableColumn("CARDS IN LOG", _cards_cell("log")),
    TableColumn("REPLAYED", _cards_cell("replay")),
)
