"""Completion knows every command with its own options, and two shells."""

from __future__ import annotations

from argparse import ArgumentParser, _SubParsersAction

import pytest

from gpupool.cli.completion import whole_parser
from gpupool.terminal.commands import SUMMARIES
from tests.unit.cli.golden import TypedLine


def test_completion_offers_every_command_with_its_summary_and_options() -> None:
    whole = whole_parser()
    (commands,) = (one for one in whole._actions if isinstance(one, _SubParsersAction))
    told = {action.dest: action.help for action in commands._get_subactions()}
    assert told == dict(SUMMARIES)
    logs = commands.choices["logs"]
    assert isinstance(logs, ArgumentParser)
    assert "--follow" in logs._option_string_actions


def test_completion_offers_the_languages_of_commands(type_line: TypedLine) -> None:
    _, out, _ = type_line("completion bash")
    for command in ("gpupool", "gpupool_ps", "gpupool_network"):
        assert f"_shtab_{command}___lang_choices=(en zh)" in out


@pytest.mark.parametrize(
    ("shell", "begins"), [("bash", "# AUTOMATICALLY"), ("zsh", "#compdef gpupool")]
)
def test_completion_prints_the_script_of_the_shell(
    shell: str, begins: str, type_line: TypedLine
) -> None:
    code, out, err = type_line(f"completion {shell}")
    assert (code, err) == (0, "")
    assert out.startswith(begins)
    assert "--max-time" in out


def test_completion_of_another_shell_is_refused_with_the_nearest(type_line: TypedLine) -> None:
    code, _, err = type_line("completion bsh")
    assert code == 2
    assert err == (
        "gpupool: GP-1005: completion 'bsh' is not known\n  did you mean bash?  one of: bash, zsh\n"
    )
