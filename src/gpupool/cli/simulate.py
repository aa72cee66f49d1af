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
from gpupool.cli.context import Context, say
from gpupool.cli.interrupt import interrupted_by_sigterm
from gpupool.cli.output import Column, print_data, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, number, one_of, path_of
from gpupool.cli.recording import checked, recorded, recording, refuse_overwriting

if TYPE_CHECKING:
    from gpupool.simulation.parallel import Tell
    from gpupool.simulation.study import Question


def register(parser: Parser) -> None:
    parser.about = """
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
    parser.examples = [
        "gpupool simulate sample",
        "gpupool simulate sample --policy binpack,spread --out result",
        "gpupool simulate synthetic:days=3,load_pct=130,cards=64 --nodes 8x8xH200 --seeds 3",
        "gpupool simulate jobs.csv --nodes nodes.csv --out result",
        "gpupool simulate synthetic:days=2 --record run.csv",
        "gpupool simulate run.claims.csv --nodes run.nodes.csv --check run.csv",
        "gpupool simulate list.csv --nodes nodes.csv --protocol fgd --policy all --seeds 10 --out result",
        "gpupool simulate list.csv --nodes nodes.csv --protocol fgd --knowledge oracle",
        "gpupool simulate list.csv --nodes nodes.csv --protocol fgd --record run.parquet --out result",
        "gpupool simulate list.csv --nodes nodes.csv --check run.parquet --out result",
    ]
    add = parser.add_argument
    add("trace", metavar="TRACE", help="sample, synthetic[:NAME=N,...], a .csv of jobs, an event log")
    add(
        "--nodes", metavar="FILE|SPEC", help="nodes as a .csv, or as for up --sim: 16x8xH200 (default: the trace's own)"
    )
    add("--policy", metavar="NAME,...", help="policies to try, one by one (default: the pool's own)")
    add("--protocol", type=one_of("--protocol", "fgd"), metavar="fgd", help="an openb list by the FGD paper's rules")
    add(
        "--seeds",
        type=number("--seeds", "the number of seeds", 1, 1000),
        default=1,
        metavar="N",
        help="so many seeds: 42, 43, ... (default: 1)",
    )
    add(
        "--knowledge",
        type=one_of("--knowledge", "online", "oracle"),
        default="online",
        metavar="online|oracle",
        help="what policies know of the jobs to come: what a pool would, or all (default: online)",
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
        help="write every decision there (.csv or .parquet), and lists of claims and nodes beside it",
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


def run(options: argparse.Namespace, context: Context) -> int:
    from gpupool.simulation.parallel import use_kernel
    from gpupool.simulation.study import ask, document, rows

    with suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        use_kernel(kernel_path())
    refuse_overwriting(options.record, options.trace, options.nodes)
    if options.check:
        return checked(options)
    if options.protocol:
        return _protocol(options, context)
    question = _question(options)
    with interrupted_by_sigterm(), progress(context, f"simulating {question.source}") as told:
        one = options.record or options.page
        lives = recorded(question, told, options.record, options.page) if one else ask(question, told)
    found = document(question, lives)
    if options.out:
        from gpupool.simulation.report import html

        keep(options.out, found, html(question, lives))
    if options.output == "table":
        sys.stdout.write(table(rows(lives), _COLUMNS) + "\n")
    else:
        print_data(found, options.output)
    return 0


def _protocol(options: argparse.Namespace, context: Context) -> int:
    """The paper's protocol: pods one by one, none ends; for scripts, so `results.json` is a plain list."""
    from gpupool.simulation import protocol, protocol_record
    from gpupool.simulation.protocol_report import html, rows
    from gpupool.simulation.study import seeds_of

    if options.page:
        raise BadOption("--page is for lives in which jobs end", hint="--out DIR writes report.html")
    if not options.nodes:
        raise BadOption("--protocol fgd needs the list of nodes", hint="--nodes openb_node_list_gpu_node.csv")
    names = protocol.ALL if options.policy in (None, "all") else tuple(dict.fromkeys(options.policy.split(",")))
    trace, nodes = Path(options.trace), Path(options.nodes)
    with ExitStack() as stack:
        stack.enter_context(interrupted_by_sigterm())
        told = stack.enter_context(progress(context, f"simulating {trace.name}"))
        file = stack.enter_context(recording(options.record, protocol_record.COLUMNS)) if options.record else None
        found = protocol.run(
            trace,
            nodes,
            names,
            seeds_of(options.seeds),
            lambda done, all_, _: told(done / all_),
            record=None if file is None else file.write,
            knowledge=options.knowledge,
        )
    if options.record:
        say(f"written: {options.record}")
    results = protocol.to_json(found)
    if options.out:
        keep(options.out, results, html(trace.name, found))
    if options.output == "table":
        sys.stdout.write(table(rows(found), _PROTOCOL_COLUMNS) + "\n")
    else:
        print_data(results, options.output)
    return 0


def _question(options: argparse.Namespace) -> Question:
    from gpupool.simulation.protocol import ALL
    from gpupool.simulation.sources import read_trace
    from gpupool.simulation.study import DEFAULT_POLICY, Question, seeds_of

    source = read_trace(options.trace)
    nodes = source.nodes(options.nodes)
    names = ALL if options.policy == "all" else (options.policy or DEFAULT_POLICY).split(",")
    policies = tuple(dict.fromkeys(names))
    seeds = seeds_of(options.seeds)
    return Question(nodes, policies, seeds, source.trace, source.synthetic, source.shapes, options.knowledge)


def keep(folder: str, found: Any, html: str) -> None:
    """Write the two files, whole or not at all. Raises StateUnusable."""
    import json

    from gpupool.drawing.page import write_files

    try:
        files = {"results.json": json.dumps(found, indent=1) + "\n", "report.html": html}
        results, report = write_files(Path(folder), files)
    except OSError as error:
        raise StateUnusable(f"{folder} cannot be written: {error.strerror}", hint="choose another --out") from error
    say(f"results: {results}, report: {report}")


@contextmanager
def progress(context: Context, words: str) -> Iterator[Tell]:
    """A bar on the terminal while something long goes on; into a pipe nothing."""
    if not sys.stderr.isatty():
        yield lambda _part: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, no_color=context.no_color)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as shown:
        task = shown.add_task(words, total=1.0)
        yield lambda part: shown.update(task, completed=part)


def _fixed(name: str, digits: int = 2) -> Any:
    return lambda row: None if row[name] is None else f"{row[name]:.{digits}f}"


def _wait(name: str) -> Any:
    return lambda row: None if row[name] is None else format_duration(row[name])


_PROTOCOL_COLUMNS = (
    Column("POLICY", lambda row: row["policy"]),
    Column("SEEDS", lambda row: row["seeds"], right=True),
    Column("ALLOCATED % AT 100 %", _fixed("allocation_100"), right=True),
    Column("AT 130 %", _fixed("allocation_130"), right=True),
    Column("FRAGMENTS % AT 100 %", _fixed("fragment_100"), right=True),
    Column("AT 130 %", _fixed("fragment_130"), right=True),
)
_COLUMNS = (
    Column("POLICY", lambda row: row["policy"]),
    Column("ALLOCATED %", _fixed("allocation_pct"), right=True),
    Column("FRAGMENTS %", _fixed("fragment_pct"), right=True),
    Column("WHOLE NODES", _fixed("whole_nodes"), right=True),
    Column("WAIT P50", _wait("p50"), right=True),
    Column("P95", _wait("p95"), right=True),
    Column("P99", _wait("p99"), right=True),
    Column("JOBS", _fixed("jobs", 0), right=True),
    Column("NEVER STARTED", _fixed("unstarted", 0), right=True),
    Column("EVICTIONS", _fixed("evictions", 0), right=True),
)
