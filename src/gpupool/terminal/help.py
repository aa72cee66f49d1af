"""The layout of help: the same on every Python, terminal or pipe.

`tools/gen_cli_docs.py` makes docs/reference/cli.md of it, so the width is fixed.
"""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Mapping, Sequence

from gpupool.terminal.commands import EXIT_CODES, GROUPS, SUMMARIES
from gpupool.terminal.error_pages import SITE_VARIABLE, explain_code, format_code, is_error_code
from gpupool.terminal.language import data_stream, is_chinese, localize_help, wrap_text
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import CommandParser, build_parser

#: Columns of a line, and where the second column begins. Not the terminal's: the reference page is
#: made of the same text.
WIDTH = 100
COLUMN = 28


def print_help(words: Sequence[str]) -> int:
    """Print the help of `gpupool`, `gpupool help COMMAND` or `gpupool help CODE`; return 0."""
    if words and is_error_code(words[0]):
        explained = explain_code(words[0], os.environ.get(SITE_VARIABLE, ""))
        if list(words[1:]) == ["-o", "json"]:
            print_data(explained, "json")
        else:
            data_stream().write(format_code(explained) + "\n")
        return 0
    if words and words[0] in SUMMARIES:
        parser = build_parser(words[0])
        if len(words) > 1 and parser.children is not None and words[1] in parser.children.choices:
            parser = parser.children.choices[words[1]]
        data_stream().write(format_command_help(parser) + "\n")
        return 0
    data_stream().write(format_overview() + "\n")
    return 0


def format_overview() -> str:
    """Format the first page: every command in a line."""
    lines = [
        f"gpupool: {localize_help('one pool for all your GPUs')}",
        "",
        "  gpupool [--state-dir DIR] COMMAND ...",
        "",
    ]
    for title, commands in GROUPS:
        lines += [
            f"{localize_help(title)}:",
            *(_format_row(name, summary) for name, summary in commands),
            "",
        ]
    lines += [
        f"{localize_help('Start here')}:",
        f"  {'gpupool up --sim 4xL40S -d':<48}  {localize_help('a pool of simulated cards')}",
        "  gpupool run --gpu 0.3 --memory 8GiB -- python train.py",
        f"  {'gpupool COMMAND --help':<48}  {localize_help('options and examples')}",
        "",
        localize_help(
            "Guides and glossary: docs/README.md (make site); error codes: gpupool help GP-1001"
        ),
    ]
    return "\n".join(lines)


def format_command_help(parser: CommandParser) -> str:
    """Format the page of one command."""
    parts = [f"{parser.prog}: {localize_help(parser.summary)}", f"  {format_usage(parser)}"]
    if parser.about:
        parts.append(_format_about(parser.about))
    if parser.children is not None:
        parts += _format_verbs(parser.children.choices, parser.headings)
    arguments = [f"{localize_help('arguments')}:"]
    options = [f"{localize_help('options')}:"]
    # argparse has `-h` first; here it comes last, as the option that needs no description.
    for action in sorted(parser._actions, key=lambda action: action.dest == "help"):
        if isinstance(action, argparse._SubParsersAction):
            continue
        if not action.option_strings:
            arguments.append(_format_row(_format_value(action), action.help or ""))
        elif action.help != argparse.SUPPRESS:
            options.append(_format_row(_format_flags(action), action.help or ""))
    if len(arguments) > 1:
        parts.append("\n".join(arguments))
    parts.append("\n".join(options))
    if parser.examples:
        heading = f"{localize_help('examples')}:"
        parts.append("\n".join([heading, *(f"  {line}" for line in parser.examples)]))
    return "\n\n".join(parts)


def _format_about(about: str) -> str:
    """Format the sentences: in English as the source breaks its lines, in Chinese by the width."""
    text = localize_help(textwrap.dedent(about).strip())
    if not is_chinese():
        return text
    return "\n".join(
        line for paragraph in text.split("\n") for line in wrap_text(paragraph, WIDTH) or [""]
    )


def _format_verbs(verbs: Mapping[str, CommandParser], headings: Mapping[str, str]) -> list[str]:
    """Format the verbs of a command: a part for each heading, in the order of their first verbs."""
    rows: dict[str, list[str]] = {}
    for name, child in verbs.items():
        row = _format_row(name, child.summary)
        rows.setdefault(headings.get(name, ""), []).append(row)
    return [
        "\n".join([f"{localize_help(title or 'verbs')}:", *found]) for title, found in rows.items()
    ]


def format_usage(parser: CommandParser) -> str:
    """Format how the command is written, in one line."""
    words = [parser.prog]
    if parser.children is not None:
        return f"{parser.prog} VERB [{localize_help('options')}]"
    words.append(f"[{localize_help('options')}]")
    for action in parser._actions:
        if not action.option_strings:
            words.append(_format_value(action))
    if parser.placeholder:
        words.append(parser.placeholder)
    return " ".join(words)


def format_exit_codes() -> str:
    """Format the table of exit codes, for the reference."""
    return "\n".join(f"{code:>4}  {localize_help(meaning)}" for code, meaning in EXIT_CODES)


def _format_value(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    return {"*": f"[{name}...]", "?": f"[{name}]", "+": f"{name}..."}.get(str(action.nargs), name)


def _format_flags(action: argparse.Action) -> str:
    flags = ", ".join(action.option_strings)
    return flags if action.nargs == 0 else f"{flags} {_format_value(action)}"


def _format_row(left: str, text: str) -> str:
    lines = wrap_text(localize_help(text), WIDTH - COLUMN) or [""]
    first = f"  {left:<{COLUMN - 2}}" if len(left) <= COLUMN - 4 else f"  {left}\n{' ' * COLUMN}"
    return (first + f"\n{' ' * COLUMN}".join(lines)).rstrip()
