"""The layout of help: one width, verbs of their own, codes as pages."""

from __future__ import annotations

import json

import pytest

from gpupool.terminal.commands import EXIT_CODES
from gpupool.terminal.help import (
    WIDTH,
    format_command_help,
    format_exit_codes,
    format_usage,
    print_help,
)
from gpupool.terminal.parser import CommandParser


def make_parser() -> CommandParser:
    parser = CommandParser("gpupool burn", "keeps a card busy")
    parser.add_argument("card", nargs="?", metavar="CARD", help="which")
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="which jobs")
    parser.add_argument("--seconds", metavar="N", help="for so long. " * 20)
    parser.add_argument("--a-flag-with-a-very-long-name", action="store_true", help="something")
    return parser


def test_help_lines_are_wrapped_at_the_width_below_their_column() -> None:
    lines = format_command_help(make_parser()).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[lines.index("  --a-flag-with-a-very-long-name") + 1] == " " * 28 + "something"
    assert lines[-1].split() == ["-h,", "--help", "show", "this", "text"]


def test_usage_marks_what_may_be_left_out_and_what_may_be_repeated() -> None:
    parser = make_parser()
    assert format_usage(parser) == "gpupool burn [options] [CARD] JOB..."
    parser.placeholder = "[--] COMMAND"
    assert format_usage(parser).endswith("JOB... [--] COMMAND")
    verbs = CommandParser("gpupool token", "tokens")
    verbs.add_verbs()
    assert format_usage(verbs) == "gpupool token VERB [options]"


def test_help_of_a_verb_is_the_verbs_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_help(["token", "revoke"]) == 0
    assert capsys.readouterr().out.startswith("gpupool token revoke: revoke a token")
    assert print_help(["token", "no-such-verb"]) == 0
    assert capsys.readouterr().out.startswith("gpupool token: ")


def test_help_of_a_code_is_its_page_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_help(["GP-1005"]) == 0
    assert "GP-1005" in capsys.readouterr().out.splitlines()[0]
    assert print_help(["GP-1005", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "GP-1005"


def test_help_of_an_unknown_word_is_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_help(["no-such-command"]) == 0
    assert capsys.readouterr().out.startswith("gpupool: one pool for all your GPUs\n")


def test_exit_codes_are_a_row_each() -> None:
    assert len(format_exit_codes().splitlines()) == len(EXIT_CODES)


def test_verbs_stand_below_their_headings_in_the_order_of_the_first_ones() -> None:
    parser = CommandParser("gpupool network", "networks")
    parser.add_verbs()
    for heading, name in (("networks", "create"), ("engine", "enable"), ("networks", "list")):
        parser.begin_heading(heading)
        parser.add_verb(name, f"{name} it")
    parts = [part.splitlines() for part in format_command_help(parser).split("\n\n")]
    verbs = {part[0]: [line.split()[0] for line in part[1:]] for part in parts[2:4]}
    assert verbs == {"networks:": ["create", "list"], "engine:": ["enable"]}


def test_a_command_of_few_verbs_has_one_list_of_them() -> None:
    parser = CommandParser("gpupool tenant", "tenants")
    parser.add_verbs()
    parser.add_verb("create", "create a tenant")
    assert "\n\nverbs:\n  create " in format_command_help(parser)
