"""What a command runs with: colours, the state directory, one connection."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpupool.terminal.context import CommandContext, print_notice


@pytest.fixture(autouse=True)
def _on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("variable", "value", "coloured"),
    [
        ("NO_COLOR", "", True),
        ("NO_COLOR", "0", False),
        ("TERM", "dumb", False),
        ("TERM", "xterm", True),
    ],
)
def test_colours_are_left_out_where_the_environment_says_so(
    variable: str, value: str, coloured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert CommandContext(str(tmp_path)).color is coloured
    assert CommandContext(str(tmp_path), no_color=True).color is False


def test_colours_are_for_terminals_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert CommandContext(str(tmp_path)).color is False


def test_state_dir_is_the_named_one_else_the_callers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUPOOL_STATE_DIR", raising=False)
    context = CommandContext()
    assert context.state_dir == str(context.settings.own_state_dir)
    assert CommandContext(str(tmp_path)).state_dir == str(tmp_path)


def test_a_command_has_one_connection(tmp_path: Path) -> None:
    context = CommandContext(str(tmp_path))
    assert context.api is context.api


def test_a_notice_leaves_stdout_to_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    print_notice("it waits")
    assert capsys.readouterr() == ("", "gpupool: it waits\n")
