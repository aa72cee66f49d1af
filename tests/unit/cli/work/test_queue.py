"""`gpupool queue`: whose turn is next, with counts where names are not the caller's."""

from __future__ import annotations

import pytest

from gpupool.cli.work.queue import COLUMNS
from gpupool.wire.views.job_pages import QueuedOut
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import queued


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("queue", "queue"),
    ],
)
def test_queue_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


@pytest.mark.parametrize(
    ("count", "gang", "shown"),
    [(1, False, "mpi"), (5, False, "mpi (4 behind it)"), (4, True, "mpi (4 members)")],
)
def test_queue_counts_an_array_behind_its_job_and_a_gang_whole(
    count: int, gang: bool, shown: str
) -> None:
    column = next(one for one in COLUMNS if one.title == "JOB")
    assert column.text({**queued()[2], "count": count, "gang": gang}) == shown


def test_queue_of_an_older_server_has_no_start(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    row = queued()[0]
    del row["start"]
    answer_with("GET", "queue", {"items": [row], "next": None})
    assert type_line("queue")[1].splitlines()[1].split()[7:9] == ["--", "not"]


def test_an_empty_queue_is_said_and_keeps_its_csv_head(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "queue", {"items": [], "next": None})
    assert "nothing waits" in "".join(type_line("queue")[1:])
    assert type_line("queue -o csv")[1] == ",".join(QueuedOut.model_fields) + "\n"
