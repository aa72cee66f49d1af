"""Restarts in place: how many count, and which words of the command line are repeated."""

from __future__ import annotations

import os

import pytest

from gpupool.base import anew
from gpupool.base.anew import (
    MOST_TIMES,
    VARIABLE,
    WINDOW_SECONDS,
    begin_anew,
    begin_anew_as_told,
    list_recent_restarts,
    list_repeatable_words,
)

NOW = 1_700_000_000.0


class ProcessEnd(BaseException):
    """In place of the end of this process."""


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The restarts that a new process would know, each time one is executed."""
    found: list[str] = []

    def execute(path: str, words: list[str], environ: dict[str, str]) -> None:
        found.append(environ[VARIABLE])
        raise ProcessEnd

    def end(status: int) -> None:
        raise ProcessEnd(status)

    monkeypatch.setattr(os, "execve", execute)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(anew.time, "time", lambda: NOW)
    monkeypatch.delenv(VARIABLE, raising=False)
    return found


def test_recent_restarts_are_those_within_the_window() -> None:
    times = [NOW - WINDOW_SECONDS, NOW - WINDOW_SECONDS + 1, NOW, NOW + 1]
    environ = {VARIABLE: ",".join(f"{at:.0f}" for at in times)}
    assert list_recent_restarts(environ, NOW) == [NOW - WINDOW_SECONDS + 1, NOW]


@pytest.mark.parametrize("text", ["", "soon", "-5", "1e9", ",,"])
def test_recent_restarts_of_a_variable_that_makes_no_sense_are_none(text: str) -> None:
    assert list_recent_restarts({VARIABLE: text}, NOW) == []
    assert list_recent_restarts({}, NOW) == []


def test_repeatable_words_leave_out_what_only_the_first_start_can_use() -> None:
    words = ["python", "-m", "gpupool", "--ready-fd", "7", "--port", "7"]
    assert list_repeatable_words(words) == ["python", "-m", "gpupool", "--port", "7"]
    assert list_repeatable_words(["a", "--ready-fd"]) == ["a"]


def test_begin_anew_counts_a_failure(executed: list[str]) -> None:
    with pytest.raises(ProcessEnd):
        begin_anew("placing")
    assert executed == [f"{NOW:.0f}"]


def test_begin_anew_as_told_counts_nothing(
    executed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{NOW - 5:.0f}")
    with pytest.raises(ProcessEnd):
        begin_anew_as_told()
    with pytest.raises(ProcessEnd):
        begin_anew("an update", counted=False)
    assert executed == [f"{NOW - 5:.0f}"] * 2


def test_begin_anew_after_too_many_failures_ends_the_process(
    executed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, ",".join([f"{NOW - 1:.0f}"] * MOST_TIMES))
    with pytest.raises(ProcessEnd) as ended:
        begin_anew("placing")
    assert ended.value.args == (os.EX_SOFTWARE,)
    assert executed == []


@pytest.mark.parametrize("shortage", [MemoryError(), OSError(24, "Too many open files")])
def test_a_process_begins_anew_as_soon_as_a_shortage_is_over(
    executed: list[str], monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    execute = os.execve
    attempts: list[int] = []

    def execute_later(path: str, words: list[str], environ: dict[str, str]) -> None:
        attempts.append(1)
        if len(attempts) < 3:
            raise shortage
        execute(path, words, environ)

    monkeypatch.setattr(os, "execve", execute_later)
    monkeypatch.setattr(anew.time, "sleep", lambda seconds: None)
    with pytest.raises(ProcessEnd):
        begin_anew("server")
    assert len(attempts) == 3
    assert len(executed) == 1


def test_a_process_that_cannot_begin_anew_ends_instead_of_hanging(
    executed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, words: list[str], environ: dict[str, str]) -> None:
        raise MemoryError

    monkeypatch.setattr(os, "execve", fail)
    monkeypatch.setattr(anew.time, "sleep", lambda seconds: None)
    with pytest.raises(ProcessEnd) as end:
        begin_anew("server")
    assert end.value.args == (os.EX_SOFTWARE,)
