"""Sweeps: every combination once, or so many random ones; the shell hands a job its own arguments."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.templates.sweep import MOST_TRIALS, build_environment, list_trials, wrap_command

FORM = "--{name}={value}"


def test_a_grid_has_each_combination_once() -> None:
    assert list_trials(["lr=0.1,0.01", "bs=8"], "grid", None, 0, FORM) == [
        ["--lr=0.1", "--bs=8"],
        ["--lr=0.01", "--bs=8"],
    ]


def test_random_draws_within_ranges_and_the_same_for_a_seed() -> None:
    parameters = ["lr=log:0.0001..0.1", "drop=0..0.5", "act=relu,gelu"]
    first = list_trials(parameters, "random", 200, 7, FORM)
    assert first == list_trials(parameters, "random", 200, 7, FORM)
    assert first != list_trials(parameters, "random", 200, 8, FORM)
    rates = [float(row[0].removeprefix("--lr=")) for row in first]
    assert min(rates) >= 0.0001
    assert max(rates) <= 0.1
    # Each decade is as likely: of 200 about 67 in each of the three.
    assert all(sum(low <= rate < low * 10 for rate in rates) > 40 for low in (1e-4, 1e-3, 1e-2))
    assert {row[2] for row in first} == {"--act=relu", "--act=gelu"}


@pytest.mark.parametrize(
    ("parameters", "method", "trials", "problem"),
    [
        ([], "grid", None, "needs a parameter"),
        (["lr"], "grid", None, "expected a parameter like"),
        (["a;b=1"], "grid", None, "expected a parameter like"),
        (["lr=1,2", "lr=3"], "grid", None, "named twice"),
        (["lr=0..1"], "grid", None, "lr is a range"),
        (["lr=0..1"], "random", None, "needs a number of trials"),
        (["lr=0..1"], "random", 0, "got 0 trials"),
        (["lr=1..0"], "random", 3, "expected a smaller and a larger"),
        (["lr=nan..1"], "random", 3, "expected a smaller and a larger"),
        (["lr=log:0..1"], "random", 3, "expected a range above 0"),
        (["lr=log:1"], "random", 3, "expected a range like"),
        (["lr=a..b"], "random", 3, "expected a range like"),
        (["a=" + "1," * 40 + "1", "b=" + "1," * 40 + "1"], "grid", None, "has 1681 combinations"),
        (["a=1,2,3"], "grid", 2, "has 3 combinations and trials is 2"),
        (["a=" + "x" * 900], "random", MOST_TRIALS, "the most is 524288"),
    ],
)
def test_what_cannot_be_swept_is_refused_with_the_numbers(
    parameters: list[str], method: str, trials: int | None, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        list_trials(parameters, method, trials, 0, FORM)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.text(alphabet="a $`'\"\\;|&<>(){}*?\n", min_size=1, max_size=12), min_size=2, max_size=3
    )
)
def test_the_shell_hands_a_job_its_arguments_and_runs_none_of_them(values: list[str]) -> None:
    trials = [[f"--a={value}", value] for value in values]
    program = ["printf", "%s\\0", "first word"]
    for number, expected in enumerate(trials):
        env = {**os.environ, **build_environment(trials), "GPUPOOL_ARRAY_INDEX": str(number)}
        done = subprocess.run(wrap_command(program), env=env, capture_output=True, check=True)
        assert done.stdout.decode().split("\0")[:-1] == ["first word", *expected]
        assert done.stderr == b""
