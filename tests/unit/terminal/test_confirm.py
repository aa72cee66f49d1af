"""One question before something is taken away, and only on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from gpupool.base.errors import BadOption
from gpupool.terminal.confirm import confirm_plan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_confirm_with_yes_prints_the_plan_and_reads_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    confirm_plan(["end a", "end b"], yes=True)
    assert capsys.readouterr().out == "will end a\nwill end b\n"
    assert sys.stdin.read() == "n\n"


def test_confirm_takes_no_answer_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(BadOption, match="nothing was done") as refused:
        confirm_plan(["end a"], yes=False)
    assert refused.value.hint == "add --yes"


@pytest.mark.parametrize("answer", ["y\n", " YES \n"])
def test_confirm_on_a_terminal_goes_on_with_yes(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    confirm_plan(["end a"], yes=False)
    assert capsys.readouterr().out == "will end a\ngo on? [y/N] "


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yess\n"])
def test_confirm_on_a_terminal_ends_without_yes(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(KeyboardInterrupt):
        confirm_plan(["end a"], yes=False)
    assert capsys.readouterr().out.endswith("nothing was done\n")
