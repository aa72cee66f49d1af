"""`gpupool completion`: the completion script for bash or zsh, made from the parsers."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.terminal.commands import GLOBAL_OPTIONS, SUMMARIES
from gpupool.terminal.context import CommandContext
from gpupool.terminal.language import LANGUAGES
from gpupool.terminal.parser import CommandParser, add_table, build_parser, one_of


def register(parser: CommandParser) -> None:
    parser.about = "Print it, and let your shell read it."
    parser.examples = [
        "gpupool completion bash > ~/.local/share/bash-completion/completions/gpupool",
        "gpupool completion zsh > ~/.zfunc/_gpupool",
    ]
    parser.add_argument(
        "shell", type=one_of("completion", "bash", "zsh"), metavar="SHELL", help="bash or zsh"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    import shtab

    sys.stdout.write(shtab.complete(whole_parser(), shell=options.shell))
    sys.stdout.write("\n")
    return 0


def whole_parser() -> argparse.ArgumentParser:
    """Return every command in one parser, as completion needs it."""
    whole = argparse.ArgumentParser(prog="gpupool", description="one pool for all your GPUs")
    add_table(whole, GLOBAL_OPTIONS)
    whole.add_argument("--version", action="store_true", help="print the version")
    commands: Any = whole.add_subparsers(dest="command")
    for name, summary in SUMMARIES.items():
        # add_parser() would make new parsers; these are built by each command's `register` already.
        commands._choices_actions.append(commands._ChoicesPseudoAction(name, (), summary))
        commands._name_parser_map[name] = build_parser(name)
    for parser in (whole, *commands.choices.values()):
        for action in parser._actions:
            if action.dest == "lang":
                action.choices = LANGUAGES
    return whole
