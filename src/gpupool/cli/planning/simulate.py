"""`gpupool simulate`: placement policies on a trace. Needs no pool and no card."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import BadOption, StateUnusable
from gpupool.base.units import format_duration
from gpupool.cli.planning.recording import (
    check_record,
    open_record,
    record_lives,
    refuse_overwriting,
)
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.interrupt import interrupted_by_sigterm
from gpupool.terminal.output import TableColumn, format_table, print_data
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    integer_within,
    one_of,
    path_of,
)

if TYPE_CHECKING:
    from gpupool.simulation.replay.parallel import TellProgress
    from gpupool.simulation.studies.study import StudyQuestion


ABOUT = """
    Runs the pool's own scheduler over a virtual clock. TRACE is `sample` (comes with gpupool), `synthetic` (made up
    by rule: synthetic:days=7,load_pct=120), a CSV of jobs, a pool's own events (gpupool events --after 0 -o json >
    events.jsonl), or an openb list. What is in them: docs/reference/traces.md. Each policy lives through the whole
    trace with each seed, on all processors. With --out the results are one JSON document and one HTML page that
    needs no network. --policy all tries the paper's six and ours. With --protocol fgd jobs never end and one that
    fits nowhere is dropped, as in "Beware of Fragmentation" (USENIX ATC 2023); results.json is then a list of
    policy, seed, levels and knowledge. With --knowledge online policies know what a pool would know at that moment,
    learnt from the jobs that came; with oracle they have counted the whole trace before its first job, as the
    paper's FGD has and no pool can. With --record every decision is a line of a table, CSV or Parquet by the name
    of the file, with the score that won and what it is made of; with --page one life is a picture. --check reads
    such a table with the raw lists and names all that a pool must never do; with --out it compares DIR/results.json
    as well. The checker shares no code with the scheduler.
    """

EXAMPLES = [
    "gpupool simulate sample",
    "gpupool simulate sample --policy binpack,spread --out result",
    "gpupool simulate synthetic:days=3,load_pct=130,cards=64 --nodes 8x8xH200 --seeds 3",
    "gpupool simulate jobs.csv --nodes nodes.csv --out result",
    "gpupool simulate synthetic:days=2 --record run.csv",
    "gpupool simulate run.claims.csv --nodes run.nodes.csv --check run.csv",
    (
        "gpupool simulate list.csv --nodes nodes.csv --protocol fgd --policy all --seeds 10 --out "
        "result"
    ),
    "gpupool simulate list.csv --nodes nodes.csv --protocol fgd --knowledge oracle",
    "gpupool simulate list.csv --nodes nodes.csv --protocol fgd --record run.parquet --out result",
    "gpupool simulate list.csv --nodes nodes.csv --check run.parquet --out result",
]


def register(parser: CommandParser) -> None:
    parser.about = ABOUT
    parser.examples = EXAMPLES
    add = parser.add_argument
    add(
        "trace",
        metavar="TRACE",
        help="sample, synthetic[:NAME=N,...], a .csv of jobs, an event log",
    )
    add(
        "--nodes",
        metavar="FILE|SPEC",
        help="nodes as a .csv, or as for up --sim: 16x8xH200 (default: the trace's own)",
    )
    add(
        "--policy", metavar="NAME,...", help="policies to try, one by one (default: the pool's own)"
    )
    add(
        "--protocol",
        type=one_of("--protocol", "fgd"),
        metavar="fgd",
        help="an openb list by the FGD paper's rules",
    )
    add(
        "--seeds",
        type=integer_within("--seeds", "the number of seeds", 1, 1000),
        default=1,
        metavar="N",
        help="so many seeds: 42, 43, ... (default: 1)",
    )
    add(
        "--knowledge",
        type=one_of("--knowledge", "online", "oracle"),
        default="online",
        metavar="online|oracle",
        help="knowledge of future jobs: as a pool has, or all (default: online)",
    )
    add(
        "--out",
        metavar="DIR",
        type=path_of("--out"),
        help="write results.json and report.html there; with --check: compare them",
    )
    add(
        "--record",
        metavar="FILE",
        type=path_of("--record"),
        help="write every decision there (.csv or .parquet), and lists of claims and nodes beside "
        "it",
    )
    add(
        "--page",
        metavar="FILE",
        type=path_of("--page"),
        help="draw the life there: cards over time, the queue, fragments; one HTML page",
    )
    add(
        "--check",
        metavar="FILE",
        type=path_of("--check"),
        help="simulate nothing: check such a record by the lists TRACE and --nodes alone",
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.simulation.replay.parallel import use_kernel
    from gpupool.simulation.studies.study import answer_question, build_document, list_policy_rows

    with suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        use_kernel(kernel_path())
    refuse_overwriting(options.record, options.trace, options.nodes)
    # Before anything is simulated: a check reads files alone.
    if options.check:
        return check_record(options)
    if options.protocol:
        return _run_protocol(options, context)
    question = _read_question(options)
    with interrupted_by_sigterm(), show_progress(context, f"simulating {question.source}") as told:
        one = options.record or options.page
        lives = (
            record_lives(question, told, options.record, options.page)
            if one
            else answer_question(question, told)
        )
    found = build_document(question, lives)
    if options.out:
        from gpupool.simulation.reports.report import render_page

        write_results(options.out, found, render_page(question, lives))
    if options.output == "table":
        sys.stdout.write(format_table(list_policy_rows(lives), _COLUMNS) + "\n")
    else:
        print_data(found, options.output)
    return 0


def _run_protocol(options: argparse.Namespace, context: CommandContext) -> int:
    """Run the paper's protocol: pods one by one, none ends.

    It is for scripts, so `results.json` is a plain list.
    """
    from gpupool.simulation.replay import protocol, protocol_record
    from gpupool.simulation.reports.protocol_report import list_policy_rows, render_page
    from gpupool.simulation.studies.study import list_seeds

    if options.page:
        raise BadOption(
            "--page is for lives in which jobs end", hint="--out DIR writes report.html"
        )
    if not options.nodes:
        raise BadOption(
            "--protocol fgd needs the list of nodes", hint="--nodes openb_node_list_gpu_node.csv"
        )
    names = (
        protocol.ALL
        if options.policy in (None, "all")
        else tuple(dict.fromkeys(options.policy.split(",")))
    )
    trace = Path(options.trace)
    nodes = Path(options.nodes)
    with ExitStack() as stack:
        stack.enter_context(interrupted_by_sigterm())
        told = stack.enter_context(show_progress(context, f"simulating {trace.name}"))
        file = (
            stack.enter_context(open_record(options.record, protocol_record.COLUMNS))
            if options.record
            else None
        )
        found = protocol.run_protocol(
            trace,
            nodes,
            names,
            list_seeds(options.seeds),
            lambda done, all_, _: told(done / all_),
            record=None if file is None else file.write_rows,
            knowledge=options.knowledge,
        )
    if options.record:
        print_notice(f"written: {options.record}")
    results = protocol.list_results(found)
    if options.out:
        write_results(options.out, results, render_page(trace.name, found))
    if options.output == "table":
        sys.stdout.write(format_table(list_policy_rows(found), _PROTOCOL_COLUMNS) + "\n")
    else:
        print_data(results, options.output)
    return 0


def _read_question(options: argparse.Namespace) -> StudyQuestion:
    from gpupool.simulation.replay.protocol import ALL
    from gpupool.simulation.studies.study import DEFAULT_POLICY, StudyQuestion, list_seeds
    from gpupool.simulation.traces.sources import read_trace

    source = read_trace(options.trace)
    nodes = source.choose_nodes(options.nodes)
    # `all` is the paper's six policies and ours.
    names = ALL if options.policy == "all" else (options.policy or DEFAULT_POLICY).split(",")
    # A policy named twice is one row: its lives would be the same.
    policies = tuple(dict.fromkeys(names))
    seeds = list_seeds(options.seeds)
    return StudyQuestion(
        nodes, policies, seeds, source.trace, source.synthetic, source.shapes, options.knowledge
    )


def write_results(folder: str, found: Any, html: str) -> None:
    """Write the two files, whole or not at all. Raises StateUnusable."""
    import json

    from gpupool.drawing.page import write_files

    try:
        files = {"results.json": json.dumps(found, indent=1) + "\n", "report.html": html}
        results, report = write_files(Path(folder), files)
    except OSError as error:
        raise StateUnusable(
            f"{folder} cannot be written: {error.strerror}", hint="choose another --out"
        ) from error
    print_notice(f"results: {results}, report: {report}")


@contextmanager
def show_progress(context: CommandContext, words: str) -> Iterator[TellProgress]:
    """Show a bar on the terminal while something long goes on; into a pipe nothing."""
    if not sys.stderr.isatty():
        yield lambda _part: None
        return
    # Only here: rich costs more to import than a short simulation.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, no_color=context.no_color)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as shown:
        task = shown.add_task(words, total=1.0)
        yield lambda part: shown.update(task, completed=part)


def _fixed_cell(name: str, digits: int = 2) -> Any:
    return lambda row: None if row[name] is None else f"{row[name]:.{digits}f}"


def _wait_cell(name: str) -> Any:
    return lambda row: None if row[name] is None else format_duration(row[name])


_PROTOCOL_COLUMNS = (
    TableColumn("POLICY", lambda row: row["policy"]),
    TableColumn("SEEDS", lambda row: row["seeds"], right=True),
    TableColumn("ALLOCATED % AT 100 %", _fixed_cell("allocation_100"), right=True),
    TableColumn("AT 130 %", _fixed_cell("allocation_130"), right=True),
    TableColumn("FRAGMENTS % AT 100 %", _fixed_cell("fragment_100"), right=True),
    TableColumn("AT 130 %", _fixed_cell("fragment_130"), right=True),
)
_COLUMNS = (
    TableColumn("POLICY", lambda row: row["policy"]),
    TableColumn("ALLOCATED %", _fixed_cell("allocation_pct"), right=True),
    TableColumn("FRAGMENTS %", _fixed_cell("fragment_pct"), right=True),
    TableColumn("WHOLE NODES", _fixed_cell("whole_nodes"), right=True),
    TableColumn("WAIT P50", _wait_cell("p50"), right=True),
    TableColumn("P95", _wait_cell("p95"), right=True),
    TableColumn("P99", _wait_cell("p99"), right=True),
    TableColumn("JOBS", _fixed_cell("jobs", 0), right=True),
    TableColumn("NEVER STARTED", _fixed_cell("unstarted", 0), right=True),
    TableColumn("EVICTIONS", _fixed_cell("evictions", 0), right=True),
)
