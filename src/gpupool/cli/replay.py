"""`gpupool replay`: a pool's own log through its scheduler, and which decisions would be different."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import BadOption, BadTrace
from gpupool.base.units import format_duration, parse_since
from gpupool.cli.context import Context
from gpupool.cli.interrupt import interrupted_by_sigterm
from gpupool.cli.listing import instant
from gpupool.cli.output import Column, many, print_data, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, path_of
from gpupool.cli.pool_log import pages_of, policy_of
from gpupool.cli.recording import recorded, refuse_overwriting
from gpupool.cli.simulate import progress
from gpupool.cli.tune import take_second_place

if TYPE_CHECKING:
    from gpupool.simulation.eventlog import Log, Start
    from gpupool.simulation.retrospect import Compared, Retrospect

SHOWN = 20
"""Different decisions that the table names; -o json has all of them."""
NS = 10**9


def register(parser: Parser) -> None:
    parser.about = """
    Reads the events of the pool (or of a file), lets the same jobs come again at their instants and run as long as
    they did, and compares each first start with the one in the log: same cards at the same instant (within 1 s),
    elsewhere, earlier, later, never. The replay begins with the log, so that the pool is as full as it was; --from and
    --to choose the jobs that are compared, by when they were submitted. From the first different decision on the two
    pools differ, and later differences may follow from it. Changes nothing. Only an admin reads the jobs of all
    tenants. Nodes count as always there, and nothing of reservations and changed priorities is replayed.
    """
    parser.examples = [
        "gpupool replay",
        "gpupool replay --policy default,fgd,binpack --from 7d",
        "gpupool replay --from 2026-11-20T08:00 --to 2026-11-20T18:00 --record day.csv",
        "gpupool events --after 0 -o json > events.jsonl; gpupool replay --log events.jsonl --page day.html",
    ]
    add = parser.add_argument
    add(
        "--log",
        metavar="FILE",
        type=path_of("--log"),
        help="events that were saved: gpupool events --after 0 -o json (default: the pool's)",
    )
    add("--policy", metavar="NAME,...", help="policies to decide by (default: the pool's own)")
    add("--from", dest="since", metavar="TIME", help="jobs submitted from then on: 2h (ago), 2026-11-20, ISO")
    add("--to", dest="until", metavar="TIME", help="jobs submitted before then; later ones do not come")
    add(
        "--record",
        metavar="FILE",
        type=path_of("--record"),
        help="write every decision there (.csv or .parquet), as simulate does",
    )
    add("--page", metavar="FILE", type=path_of("--page"), help="draw the replay of one policy there, one HTML page")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    from gpupool.simulation.foreknowledge import ONLINE
    from gpupool.simulation.parallel import use_kernel
    from gpupool.simulation.retrospect import compare, until
    from gpupool.simulation.study import FIRST_SEED, Question

    with suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        use_kernel(kernel_path())
    refuse_overwriting(options.record, options.log)
    from_ns, to_ns = _instant_ns(options.since), _instant_ns(options.until)
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise BadOption(f"--from {options.since} is not before --to {options.until}", hint="--from 7d --to 1d")
    found: dict[str, Retrospect] = {}
    with interrupted_by_sigterm(), progress(context, "replaying the log") as told:
        log, policy = _log(options, context)
        trace = until(log, to_ns)
        if not trace.nodes:
            raise BadTrace(
                f"{trace.name} tells of no cards", hint="give the whole log: gpupool events --after 0 -o json"
            )
        take_second_place()
        policies = tuple(dict.fromkeys(options.policy.split(","))) if options.policy else (policy,)
        question = Question(trace.nodes, policies, (FIRST_SEED,), trace, knowledge=ONLINE)

        def hear(case: Any, rows: Any) -> None:
            found[case.policy] = compare(case.policy, log, trace, rows, from_ns)

        recorded(question, told, options.record, options.page, hear)
    replays = [found[name] for name in policies]
    if options.output != "table":
        print_data(document(trace.name, replays), options.output)
    else:
        sys.stdout.write(text(trace.name, replays) + "\n")
    return 0


def _log(options: argparse.Namespace, context: Context) -> tuple[Log, str]:
    """The log, and the policy that decides."""
    from gpupool.simulation.eventlog import read_log
    from gpupool.simulation.history import History
    from gpupool.simulation.nodes import read_text
    from gpupool.simulation.study import DEFAULT_POLICY

    if options.log:
        return read_log(options.log, read_text(options.log)), DEFAULT_POLICY
    policy, history = policy_of(context), History(0)
    for page in pages_of(context):
        history.take(page)
    return history.log("the pool's log"), policy


def _instant_ns(text: str | None) -> int | None:
    if text is None:
        return None
    now = datetime.fromtimestamp(time.time_ns() / NS, UTC)
    return int(parse_since(text, now).timestamp()) * NS


# --- what is told ---------------------------------------------------------------------------------


def document(name: str, replays: Sequence[Retrospect]) -> dict[str, Any]:
    """Everything, ready for JSON."""
    return {"log": name, "jobs": len(replays[0].jobs), "replays": [_replay(one) for one in replays]}


def _replay(one: Retrospect) -> dict[str, Any]:
    return {**_row(one), "different": [_compared(job) for job in one.different]}


def _row(one: Retrospect) -> dict[str, Any]:
    from gpupool.simulation.retrospect import VERDICTS

    counts, waits = one.counts, _waits_of(one)
    return {"policy": one.policy, **{verdict: counts[verdict] for verdict in VERDICTS}, **waits}


def _waits_of(one: Retrospect) -> dict[str, float | None]:
    """Percentiles of both sides, None where so many never start."""
    from gpupool.simulation.measure import waits_of

    replayed = [job.replayed.at_ns - job.submitted_ns for job in one.jobs if job.replayed is not None]
    log = waits_of([job.logged.at_ns - job.submitted_ns for job in one.jobs], 0)
    then = waits_of(replayed, len(one.jobs) - len(replayed))
    return {"log_p50": log.p50, "log_p95": log.p95, "p50": then.p50, "p95": then.p95}


def _compared(job: Compared) -> dict[str, Any]:
    return {
        "job": job.job,
        "tenant": job.tenant,
        "verdict": job.verdict,
        "submitted_ns": job.submitted_ns,
        "log": _start(job.logged),
        "replay": None if job.replayed is None else _start(job.replayed),
        "reason": job.reason,
    }


def _start(start: Start) -> dict[str, Any]:
    return {"at_ns": start.at_ns, "node": start.node, "cards": list(start.cards)}


def text(name: str, replays: Sequence[Retrospect]) -> str:
    """A row per policy; of one policy also the decisions that differ, the first ones."""
    jobs = replays[0].jobs
    begin, end = instant(min(job.submitted_ns for job in jobs)), instant(max(job.submitted_ns for job in jobs))
    lines = [f"{name}: {many(len(jobs), 'job')} submitted {begin} to {end}"]
    lines += ["", table([_row(one) for one in replays], _SUMMARY)]
    if len(replays) > 1:
        return "\n".join(lines)
    different = replays[0].different
    if not different:
        return "\n".join([*lines, "", "every job starts when and where it did"])
    lines += ["", table([_compared(job) for job in different[:SHOWN]], _DIFFERENT)]
    if len(different) > SHOWN:
        lines.append(f"and {len(different) - SHOWN} more: -o json has all of them")
    return "\n".join(lines)


def _wait(name: str) -> Any:
    return lambda row: None if row[name] is None else format_duration(row[name])


def _by(row: Any) -> str | None:
    if row["verdict"] not in ("earlier", "later"):
        return None
    apart = row["replay"]["at_ns"] - row["log"]["at_ns"]
    return ("-" if apart < 0 else "+") + format_duration(abs(apart) / NS)


def _where(side: str) -> Any:
    return lambda row: row[side] and f"{row[side]['node']}:{','.join(map(str, row[side]['cards']))}".rstrip(":")


_SUMMARY = (
    Column("POLICY", lambda row: row["policy"]),
    Column("SAME", lambda row: row["same"], right=True),
    Column("ELSEWHERE", lambda row: row["elsewhere"], right=True),
    Column("EARLIER", lambda row: row["earlier"], right=True),
    Column("LATER", lambda row: row["later"], right=True),
    Column("NEVER", lambda row: row["never"], right=True),
    Column("MEDIAN WAIT IN LOG", _wait("log_p50"), right=True),
    Column("REPLAYED", _wait("p50"), right=True),
    Column("95 % IN LOG", _wait("log_p95"), right=True),
    Column("REPLAYED", _wait("p95"), right=True),
)
_DIFFERENT = (
    Column("STARTED", lambda row: instant(row["log"]["at_ns"])),
    Column("JOB", lambda row: row["job"]),
    Column("TENANT", lambda row: row["tenant"]),
    Column("REPLAY", lambda row: row["verdict"]),
    Column("BY", _by, right=True),
    Column("CARDS IN LOG", _where("log")),
    Column("REPLAYED", _where("replay")),
)
