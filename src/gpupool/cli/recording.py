"""`gpupool simulate --record`, `--page`, `--check`: one life as a table or a picture, and a check of such a table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpupool.base.errors import BadOption, StateUnusable
from gpupool.cli.context import say
from gpupool.cli.output import Column, many, print_data, table

if TYPE_CHECKING:
    from gpupool.simulation.parallel import Tell
    from gpupool.simulation.study import Life, Question
    from gpupool.simulation.world import World

EXIT_FAULTS = 1


def recorded(question: Question, told: Tell, record: str | None, page: str | None) -> list[Life]:
    """The one life of the question, written down: its decisions with the raw lists, and its picture.

    Raises BadOption, BadTrace, StateUnusable.
    """
    from gpupool.simulation import decisions, picture
    from gpupool.simulation.study import Case, trace_of, watched
    from gpupool.simulation.trace import write_csv

    if len(question.policies) * len(question.seeds) > 1:
        raise BadOption("--record and --page are of one life: one policy, one seed", hint="--policy fgd --seeds 1")
    case = Case(question, question.policies[0], question.seeds[0])
    nodes, seen = decisions.nodes_table(question.nodes) if record else "", list[decisions.DecisionRecorder]()

    def watcher(world: World) -> decisions.DecisionRecorder:
        seen.append(decisions.DecisionRecorder(world))
        return seen[0]

    life = watched(case, told, watcher)
    rows = seen[0].rows
    if record:
        names = [Path(record).name, *(one.name for one in decisions.beside(Path(record)))]
        claims = write_csv(trace_of(question, case.seed))
        _write(record, dict(zip(names, (decisions.table(rows), claims, nodes), strict=True)))
    if page:
        title = f"{question.source}: {case.policy}, seed {case.seed}"
        _write(page, {Path(page).name: picture.html(title, question.nodes, rows, life.figures.timeline)})
    return [life]


def _write(path: str, files: dict[str, str]) -> None:
    """Beside each other, whole or not at all. Raises StateUnusable."""
    from gpupool.drawing.page import write_files

    try:
        written = write_files(Path(path).parent, files)
    except OSError as error:
        raise StateUnusable(f"{path} cannot be written: {error.strerror}", hint="choose another file") from error
    say(f"written: {', '.join(map(str, written))}")


def checked(options: argparse.Namespace) -> int:
    """Faults on the output; exit status 1 where there are any. Raises BadOption, BadTrace."""
    from gpupool.simulation.decisions import check_files

    if not options.nodes or not options.trace.endswith(".csv") or not options.nodes.endswith(".csv"):
        hint = "gpupool simulate run.claims.csv --nodes run.nodes.csv --check run.csv"
        raise BadOption("--check reads raw lists: TRACE and --nodes are .csv files", hint=hint)
    faults = check_files(options.trace, options.nodes, options.check)
    rows = [{"line": fault.line, "rule": fault.rule, "text": fault.text} for fault in faults]
    if options.output != "table":
        print_data({"record": options.check, "faults": rows}, options.output)
    elif rows:
        sys.stdout.write(f"{table(rows, _COLUMNS)}\n{many(len(rows), 'fault')} in {options.check}\n")
    else:
        sys.stdout.write(f"{options.check}: no fault\n")
    return EXIT_FAULTS if faults else 0


_COLUMNS = (
    Column("LINE", lambda row: row["line"], right=True),
    Column("RULE", lambda row: row["rule"]),
    Column("WHAT", lambda row: row["text"]),
)
