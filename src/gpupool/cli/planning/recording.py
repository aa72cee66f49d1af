"""`gpupool simulate --record`, `--page`, `--check`: lives as a table, one as a picture, a check."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import BadOption, StateUnusable
from gpupool.terminal.context import print_notice
from gpupool.terminal.output import TableColumn, count_noun, format_table, print_data

if TYPE_CHECKING:
    from gpupool.simulation.replay.parallel import TellProgress
    from gpupool.simulation.studies.decisions import DecisionRows
    from gpupool.simulation.studies.study import SimulatedLife, StudyCase, StudyQuestion
    from gpupool.simulation.traces.decision_files import DecisionTable

    Hear = Callable[[StudyCase, DecisionRows], None]

#: Exit code of `--check` when the record breaks a rule.
EXIT_FAULTS = 1

#: Faults that the table names.
SHOWN = 100


def record_lives(
    question: StudyQuestion,
    told: TellProgress,
    record: str | None,
    page: str | None,
    hear: Hear | None = None,
) -> list[SimulatedLife]:
    """Run the lives of the question; write their decisions, the raw lists and the picture of one.

    Args:
        hear: Is called with the decisions of each life as it ends.

    Raises:
        BadOption: The options ask for more lives than the files can hold.
        BadTrace: The trace cannot be read.
        StateUnusable: A file cannot be written.
        ServiceUnavailable: A needed library is missing.
    """
    from gpupool.simulation.studies.decisions import COLUMNS

    # A life is one policy with one seed.
    lives = len(question.policies) * len(question.seeds)
    if page and lives > 1:
        raise BadOption(
            "--page is of one life: one policy, one seed", hint="--policy fgd --seeds 1"
        )
    if record and question.trace is None and len(question.seeds) > 1:
        hint = "--seeds 1; a trace in a file is the same for every seed"
        raise BadOption(
            "--record of a made-up trace is of one seed: each has its own claims", hint=hint
        )
    if record is None:
        return _run_lives(question, told, lambda _rows: None, page, hear)
    with open_record(record, COLUMNS) as file:
        found = _run_lives(question, told, file.write_rows, page, hear)
        _write_lists(question, Path(record))
    print_notice(f"written: {record}, {', '.join(map(str, _find_lists(record)))}")
    return found


def _run_lives(
    question: StudyQuestion, told: TellProgress, write: Any, page: str | None, hear: Hear | None
) -> list[SimulatedLife]:
    from gpupool.simulation.replay.parallel import InOrder, run_all
    from gpupool.simulation.studies.decisions import record_life
    from gpupool.simulation.studies.study import list_cases

    cases = list_cases(question)
    # Lives end in any order on several processors; the file has them as they were asked for.
    in_order = InOrder[tuple[str, int], Any](((case.policy, case.seed) for case in cases), write)

    def hear_life(one: tuple[StudyCase, SimulatedLife, DecisionRows]) -> None:
        case, life, rows = one
        if page:
            _draw_page(page, question, case, life, rows)
        if hear is not None:
            hear(case, rows)
        in_order.put_result((case.policy, case.seed), rows.copy())
        rows.clear()  # they are many, and results stay until all is done

    return [life for _, life, _ in run_all(record_life, cases, told, done=hear_life)]


def _draw_page(
    path: str, question: StudyQuestion, case: StudyCase, life: SimulatedLife, rows: DecisionRows
) -> None:
    from gpupool.simulation.reports import picture

    title = f"{question.source}: {case.policy}, seed {case.seed}"
    _write_files(
        path,
        {Path(path).name: picture.render_page(title, question.nodes, rows, life.figures.timeline)},
    )
    print_notice(f"written: {path}")


def _find_lists(record: str) -> Sequence[Path]:
    from gpupool.simulation.studies.decisions import get_list_paths

    return get_list_paths(Path(record))


def _write_lists(question: StudyQuestion, record: Path) -> None:
    from gpupool.simulation.studies.decisions import format_nodes, get_list_paths
    from gpupool.simulation.studies.study import build_case_trace
    from gpupool.simulation.traces.trace import write_csv

    claims, nodes = (path.name for path in get_list_paths(record))
    trace = build_case_trace(question, question.seeds[0])
    _write_files(str(record), {claims: write_csv(trace), nodes: format_nodes(question.nodes)})


@contextmanager
def open_record(path: str, columns: Sequence[str]) -> Iterator[DecisionTable]:
    """Open a table that is there whole once all is written.

    Raises StateUnusable or ServiceUnavailable before anything runs.
    """
    from gpupool.simulation.traces.decision_files import open_table

    try:
        # Beside the name and renamed at the end: a run that is killed leaves no half of a record.
        with open_table(Path(path), columns) as file:
            yield file
    except OSError as error:
        raise _describe_unwritten(path, error) from error


def _write_files(path: str, files: dict[str, str]) -> None:
    """Write files beside each other, whole or not at all. Raises StateUnusable."""
    from gpupool.drawing.page import write_files

    try:
        write_files(Path(path).parent, files)
    except OSError as error:
        raise _describe_unwritten(path, error) from error


def _describe_unwritten(path: str, error: OSError) -> StateUnusable:
    return StateUnusable(
        f"{path} cannot be written: {error.strerror or error}", hint="choose another file"
    )


def refuse_overwriting(record: str | None, *read: str | None) -> None:
    """Raise BadOption where a record, or a list beside it, would overwrite a list that is read."""
    for written in [] if record is None else [Path(record), *_find_lists(record)]:
        for given in filter(None, read):
            # By inode, not by name: a link or another spelling of the path is the same file.
            if written.exists() and Path(given).exists() and written.samefile(given):
                raise BadOption(
                    f"--record {record} would overwrite {given}, which is read",
                    hint="choose another name",
                )


def check_record(options: argparse.Namespace) -> int:
    """Print the faults of a record; return exit code 1 where there are any.

    Raises:
        BadOption: Options of a simulation are given, or the lists are not raw ones.
        BadTrace: A file cannot be read.
    """
    from gpupool.simulation.checking.files import check_files

    if options.record or options.page:
        raise BadOption(
            "--check simulates nothing: there is nothing for --record and --page",
            hint="one of them alone",
        )
    if (
        not options.nodes
        or not options.trace.endswith(".csv")
        or not options.nodes.endswith(".csv")
    ):
        hint = "gpupool simulate run.claims.csv --nodes run.nodes.csv --check run.csv"
        raise BadOption("--check reads raw lists: TRACE and --nodes are .csv files", hint=hint)
    faults = check_files(options.trace, options.nodes, options.check, options.out)
    rows = []
    for fault in faults:
        rows.append({"line": fault.line, "rule": fault.rule, "text": fault.text})
    if options.output != "table":
        print_data({"record": options.check, "faults": rows}, options.output)
    elif rows:
        more = (
            f"and {len(rows) - SHOWN} more: -o json has all of them\n" if len(rows) > SHOWN else ""
        )
        sys.stdout.write(
            f"{format_table(rows[:SHOWN], _COLUMNS)}\n{more}{count_noun(len(rows), 'fault')} in {options.check}\n"
        )
    else:
        sys.stdout.write(f"{options.check}: no fault\n")
    return EXIT_FAULTS if faults else 0


_COLUMNS = (
    TableColumn("LINE", lambda row: row["line"] or "--", right=True),
    TableColumn("RULE", lambda row: row["rule"]),
    TableColumn("WHAT", lambda row: row["text"]),
)
