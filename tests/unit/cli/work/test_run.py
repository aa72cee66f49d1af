"""What `gpupool run` says on stderr, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.base.errors import BadOption, ServiceUnavailable
from gpupool.cli.work.run import _check_output_choice, _RunNotices, exit_words, grant_line
from tests.unit.cli.golden import GoldenLine
from tests.unit.cli.sample import job


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("run-bad-memory", "run --gpu 0.3 --memory 8 -- true"),
        ("run-no-command", "run --gpu 0.3"),
        ("run-not-found", "run --gpu 0.3 -- ./no-such-program"),
    ],
)
def test_run_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


@pytest.mark.parametrize(
    ("keeps", "is_local", "why"),
    [(True, True, "one of them at most"), (False, False, "through the job's log")],
)
def test_output_that_would_be_kept_all_the_same_is_refused(
    keeps: bool, is_local: bool, why: str
) -> None:
    options = SimpleNamespace(keep_output=keeps, no_keep_output=True)
    with pytest.raises(BadOption, match=why):
        _check_output_choice(options, is_local=is_local)  # type: ignore[arg-type]


class PoolOfHints:
    """An `Api` that knows what would help one job; it does not answer for others."""

    def request(self, method: str, path: str) -> dict[str, Any]:
        if (method, path) != ("GET", f"jobs/{job()['id']}/explain"):
            raise ServiceUnavailable("no pool answers")
        return {"hints": ["with --max-time 1h it starts now", "wait: it starts at noon"]}


def said_by_run(
    capsys: pytest.CaptureFixture[str], *told: tuple[str, dict[str, Any]], **options: bool
) -> str:
    words = _RunNotices(
        SimpleNamespace(quiet=False, verbose=False, **options)
        if not options
        else _options(**options),
        PoolOfHints(),  # type: ignore[arg-type]
    )
    for what, known in told:
        words.print_end(known) if what == "ended" else words.print_progress(what, known)
    return capsys.readouterr().err


def _options(*, quiet: bool = False, verbose: bool = False) -> SimpleNamespace:
    return SimpleNamespace(quiet=quiet, verbose=verbose)


DONE = ("ended", job(state="done", exit_code=0))


STOPPED = ("ended", job(state="stopped", signal=15, reason="max time of 2s reached"))


def test_the_grant_names_both_numbers_card_model_and_fence() -> None:
    assert (
        grant_line(job())
        == "0.30 GPU (30 % compute) + 8192 MiB on node-1:0 (H200, SIMULATED) · fence: none"
    )
    assert grant_line(job(simulated=False)).endswith("on node-1:0 (H200) · fence: none")
    assert grant_line(job(fence="advisory", fence_why="it is yours")).endswith(
        "fence: advisory (it is yours)"
    )


def test_into_a_pipe_run_says_why_it_waits_and_unchosen_ends_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waits = ("waiting", job(state="pending", reason="all 4 cards are in use"))
    said = said_by_run(
        capsys,
        ("waiting", job(state="pending")),
        waits,
        waits,
        ("granted", job()),
        ("away", job()),
        DONE,
    )
    assert said == "gpupool: train waits: all 4 cards are in use\n"
    assert said_by_run(capsys, STOPPED) == "gpupool: train stopped: max time of 2s reached\n"


def test_verbose_run_says_everything(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_by_run(
        capsys, ("granted", job()), ("away", job()), ("back", job()), DONE, verbose=True
    )
    assert said == (
        "gpupool: 0.30 GPU (30 % compute) + 8192 MiB on node-1:0 (H200, SIMULATED) · fence: none\n"
        "gpupool: the pool does not answer; train is not affected, waiting for the pool to come back\n"
        "gpupool: the pool is back\n"
        "gpupool: train done after 1:30\n"
    )


def test_run_on_a_terminal_says_what_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    waits = ("waiting", job(state="pending", reason="full"))
    unknown = ("waiting", job(state="pending", reason="full now", id="j-other"))
    assert said_by_run(capsys, waits, waits, unknown, verbose=True) == (
        "gpupool: train waits: full\n"
        "gpupool: with --max-time 1h it starts now\n"
        "gpupool: wait: it starts at noon\n"
        "gpupool: train waits: full now\n"
    )


def test_quiet_run_says_nothing_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    waits = ("waiting", job(state="pending", reason="full"))
    assert said_by_run(capsys, waits, ("granted", job()), STOPPED, DONE, quiet=True) == ""


def test_the_end_of_a_job_names_signal_before_exit_code() -> None:
    assert exit_words(job(state="failed", signal=9, exit_code=137)) == ", signal 9"
    assert exit_words(job(state="failed", exit_code=7)) == ", exit code 7"
    assert exit_words(job(state="done", exit_code=0)) == ""


def test_a_job_that_ends_while_the_pool_is_away_is_told_even_when_quiet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said_by_run(capsys, ("ended", job()), quiet=True) == (
        "gpupool: train has ended; the pool does not answer, its share is freed when it is back\n"
    )
