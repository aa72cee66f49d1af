"""How help looks: the same on every Python, terminal or pipe; also the source of docs/reference/cli.md."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence

from gpupool.cli.commands import EXIT_CODES, GROUPS, SUMMARIES
from gpupool.cli.parser import Parser, command_parser

WIDTH = 100
COLUMN = 28


def main_help(words: Sequence[str]) -> int:
    """`gpupool`, `gpupool --help`, `gpupool help COMMAND`."""
    if words and words[0] in SUMMARIES:
        parser = command_parser(words[0])
        if len(words) > 1 and parser.children is not None and words[1] in parser.children.choices:
            parser = parser.children.choices[words[1]]
        sys.stdout.write(command_help(parser) + "\n")
        return 0
    sys.stdout.write(overview() + "\n")
    return 0


def overview() -> str:
    """The first page: every command in a line."""
    lines = ["gpupool: one pool for all your GPUs", "", "  gpupool [--state-dir DIR] COMMAND ...", ""]
    for title, commands in GROUPS:
        lines += [f"{title}:", *(_row(name, summary) for name, summary in commands), ""]
    lines += [
        "Start here:",
        "  gpupool up --sim 4xL40S -d                        a pool of simulated cards",
        "  gpupool run --gpu 0.3 --memory 8GiB -- python train.py",
        "  gpupool COMMAND --help                            options and examples",
    ]
    return "\n".join(lines)


def command_help(parser: Parser) -> str:
    """One command's page."""
    parts = [f"{parser.prog}: {parser.summary}", f"  {usage(parser)}"]
    if parser.about:
        parts.append(textwrap.dedent(parser.about).strip())
    if parser.children is not None:
        verbs = [_row(name, child.summary) for name, child in parser.children.choices.items()]
        parts.append("\n".join(["verbs:", *verbs]))
    positionals = [a for a in parser._actions if not a.option_strings and not isinstance(a, argparse._SubParsersAction)]
    if positionals:
        parts.append("\n".join(["arguments:", *(_row(_value(a), a.help or "") for a in positionals)]))
    options = [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]
    options.sort(key=lambda action: action.dest == "help")
    parts.append("\n".join(["options:", *(_row(_flags(action), action.help or "") for action in options)]))
    if parser.examples:
        parts.append("\n".join(["examples:", *(f"  {line}" for line in parser.examples)]))
    return "\n\n".join(parts)


def usage(parser: Parser) -> str:
    """How the command is written, in one line."""
    words = [parser.prog]
    if parser.children is not None:
        return f"{parser.prog} VERB [options]"
    words.append("[options]")
    for action in parser._actions:
        if not action.option_strings:
            words.append(_value(action))
    if parser.placeholder:
        words.append(parser.placeholder)
    return " ".join(words)


def exit_codes() -> str:
    """The table of exit codes, for the reference."""
    return "\n".join(f"{code:>4}  {meaning}" for code, meaning in EXIT_CODES)


def _value(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    return {"*": f"[{name}...]", "?": f"[{name}]", "+": f"{name}..."}.get(str(action.nargs), name)


def _flags(action: argparse.Action) -> str:
    flags = ", ".join(action.option_strings)
    return flags if action.nargs == 0 else f"{flags} {_value(action)}"


def _row(left: str, text: str) -> str:
    lines = textwrap.wrap(text, WIDTH - COLUMN) or [""]
    first = f"  {left:<{COLUMN - 2}}" if len(left) <= COLUMN - 4 else f"  {left}\n{' ' * COLUMN}"
    return (first + f"\n{' ' * COLUMN}".join(lines)).rstrip()
