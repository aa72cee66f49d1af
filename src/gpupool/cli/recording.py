"""`gpupool simulate --record`, `--page`, `--check`: lives as a table, one as a picture, and a check of such a table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import BadOption, StateUnusable
from gpupool.cli.context import say
from gpupool.cli.output import Column, many, print_data, table

if TYPE_CHECKING:
    from gpupool.simulation.decision_files import Table
    from gpupool.simulation.decisions import Rows
    from gpupool.simulation.parallel import Tell
    from gpupool.simulation.study import Case, Life, Question

    Hear = Callable[[Case, Rows], None]

EXIT_FAULTS = 1

SHOWN = 100
"""Faults that the table names."""


def recorded(
    question: Question, told: Tell, record: str | None, page: str | None, hear: Hear | None = None
) -> list[Life]:
    """The lives of the question, written down: their decisions with the raw lists, and the picture of one.

    `hear` is told the decisions of each life as it ends.
    Raises BadOption, BadTrace, StateUnusable, Unavailable.
    """
    from gpupool.simulation.decisions import COLUMNS

    lives = len(question.policies) * len(question.seeds)
    if page and lives > 1:
        raise BadOption("--page is of one life: one policy, one seed", hint="--policy fgd --seeds 1")
    if record and question.trace is None and len(question.seeds) > 1:
        hint = "--seeds 1; a trace in a file is the same for every seed"
        raise BadOption("--record of a made-up trace is of one seed: each has its own claims", hint=hint)
    if record is None:
        return _lived(question, told, lambda _rows: None, page, hear)
    with recording(record, COLUMNS) as file:
        found = _lived(question, told, file.write, page, hear)
        _write_lists(question, Path(record))
    say(f"written: {record}, {', '.join(map(str, _lists(record)))}")
    return found


def _lived(question: Question, told: Tell, write: Any, page: str | None, hear: Hear | None) -> list[Life]:
    from gpupool.simulation.decisions import recorded_life
    from gpupool.simulation.parallel import InOrder, run_all
    from gpupool.simulation.study import cases_of

    cases = cases_of(question)
    in_order = InOrder[tuple[str, int], Any](((case.policy, case.seed) for case in cases), write)

    def done(one: tuple[Case, Life, Rows]) -> None:
        case, life, rows = one
        if page:
            _draw(page, question, case, life, rows)
        if hear is not None:
            hear(case, rows)
        in_order.put((case.policy, case.seed), rows.copy())
        rows.clear()  # they are many, and results stay until all is done

    return [life for _, life, _ in run_all(recorded_life, cases, told, done=done)]


def _draw(path: str, question: Question, case: Case, life: Life, rows: Rows) -> None:
    from gpupool.simulation import picture

    title = f"{question.source}: {case.policy}, seed {case.seed}"
    _write(path, {Path(path).name: picture.html(title, question.nodes, rows, life.figures.timeline)})
    say(f"written: {path}")


def _lists(record: str) -> Sequence[Path]:
    from gpupool.simulation.decisions import beside

    return beside(Path(record))


def _write_lists(question: Question, record: Path) -> None:
    from gpupool.simulation.decisions import beside, nodes_table
    from gpupool.simulation.study import trace_of
    from gpupool.simulation.trace import write_csv

    claims, nodes = (path.name for path in beside(record))
    trace = trace_of(question, question.seeds[0])
    _write(str(record), {claims: write_csv(trace), nodes: nodes_table(question.nodes)})


@contextmanager
def recording(path: str, columns: Sequence[str]) -> Iterator[Table]:
    """A table that is there whole once all is written. Raises StateUnusable, Unavailable before anything runs."""
    from gpupool.simulation.decision_files import written

    try:
        with written(Path(path), columns) as file:
            yield file
    except OSError as error:
        raise _unwritten(path, error) from error


def _write(path: str, files: dict[str, str]) -> None:
    """Beside each other, whole or not at all. Raises StateUnusable."""
    from gpupool.drawing.page import write_files

    try:
        write_files(Path(path).parent, files)
    except OSError as error:
        raise _unwritten(path, error) from error


def _unwritten(path: str, error: OSError) -> StateUnusable:
    return StateUnusable(f"{path} cannot be written: {error.strerror or error}", hint="choose another file")


def refuse_overwriting(record: str | None, *read: str | None) -> None:
    """A record, or a list beside it, is not written over a list that is read. Raises BadOption."""
    for written in [] if record is None else [Path(record), *_lists(record)]:
        for given in filter(None, read):
            if written.exists() and Path(given).exists() and written.samefile(given):
                raise BadOption(f"--record {record} would overwrite {given}, which is read", hint="choose another name")


def checked(options: argparse.Namespace) -> int:
    """Faults on the output; exit status 1 where there are any. Raises BadOption, BadTrace, Unavailable."""
    from gpupool.simulation.check_files import check_files

    if options.record or options.page:
        raise BadOption("--check simulates nothing: there is nothing for --record and --page", hint="one of them alone")
    if not options.nodes or not options.trace.endswith(".csv") or not options.nodes.endswith(".csv"):
        hint = "gpupool simulate run.claims.csv --nodes run.nodes.csv --check run.csv"
        raise BadOption("--check reads raw lists: TRACE and --nodes are .csv files", hint=hint)
    faults = check_files(options.trace, options.nodes, options.check, options.out)
    rows = [{"line": fault.line, "rule": fault.rule, "text": fault.text} for fault in faults]
    if options.output != "table":
        print_data({"record": options.check, "faults": rows}, options.output)
    elif rows:
        more = f"and {len(rows) - SHOWN} more: -o json has all of them\n" if len(rows) > SHOWN else ""
        sys.stdout.write(f"{table(rows[:SHOWN], _COLUMNS)}\n{more}{many(len(rows), 'fault')} in {options.check}\n")
    else:
        sys.stdout.write(f"{options.check}: no fault\n")
    return EXIT_FAULTS if faults else 0


_COLUMNS = (
    Column("LINE", lambda row: row["line"] or "--", right=True),
    Column("RULE", lambda row: row["rule"]),
    Column("WHAT", lambda row: row["text"]),
)
