"""How a script's lines spell the options of sbatch."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadManifest
from gpupool.dialects.batch.slurm_options import read_options


def read(*lines: str) -> list[tuple[str, object]]:
    return [(key, word.value) for key, word in read_options("\n".join(["#!/bin/sh", *lines]))]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("#SBATCH --time=10", [("time", "10")]),
        ("#SBATCH --time 10", [("time", "10")]),
        ("#SBATCH -t10", [("time", "10")]),
        ("#SBATCH -t=10", [("time", "10")]),
        ("#SBATCH -t 10 -N 2", [("time", "10"), ("nodes", "2")]),
        ("#SBATCH --exclusive --time=10", [("exclusive", ""), ("time", "10")]),
        ("#SBATCH -H -t 5", [("hold", ""), ("time", "5")]),
        ("#SBATCH --job-name='a b' # words", [("job-name", "a b")]),
        ("#SBATCH -Z 3", [("Z", "3")]),
        ("##SBATCH --time=10", []),
        (" #SBATCH --time=10", []),
    ],
)
def test_options_are_read_in_every_spelling(line: str, found: list[tuple[str, str]]) -> None:
    assert read(line) == found


def test_options_end_at_the_first_command() -> None:
    assert read("#SBATCH -t 5", "", "# words", "#SBATCH -N 2", "true", "#SBATCH -c 3") == [
        ("time", "5"),
        ("nodes", "2"),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("#SBATCH --time", "--time needs a value"),
        ("#SBATCH time=5", "'time=5' is no option of sbatch"),
        ("#SBATCH --", "'--' is no option of sbatch"),
        ("#SBATCH --job-name='a", "No closing quotation"),
    ],
)
def test_option_that_makes_no_sense_is_refused_with_its_line(line: str, says: str) -> None:
    with pytest.raises(BadManifest) as caught:
        read(line)
    assert says in caught.value.message
    assert caught.value.details["path"] == (2,)
