"""`gpupool completion`: the completion script for bash or zsh, made from the parsers."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.cli.commands import GLOBAL_OPTIONS, SUMMARIES
from gpupool.cli.context import Context
from gpupool.cli.parser import Parser, add_table, command_parser, one_of


def register(parser: Parser) -> None:
    parser.about = "Print it, and let your shell read it."
    parser.examples = [
        "gpupool completion bash > ~/.local/share/bash-completion/completions/gpupool",
        "gpupool completion zsh > ~/.zfunc/_gpupool",
    ]
    parser.add_argument("shell", type=one_of("completion", "bash", "zsh"), metavar="SHELL", help="bash or zsh")


def run(options: argparse.Namespace, context: Context) -> int:
    import shtab

    sys.stdout.write(shtab.complete(whole_parser(), shell=options.shell))
    sys.stdout.write("\n")
    return 0


def whole_parser() -> argparse.ArgumentParser:
    """Every command in one parser, as completion needs it."""
    whole = argparse.ArgumentParser(prog="gpupool", description="one pool for all your GPUs")
    add_table(whole, GLOBAL_OPTIONS)
    whole.add_argument("--version", action="store_true", help="print the version")
    commands: Any = whole.add_subparsers(dest="command")
    for name, summary in SUMMARIES.items():
        commands._choices_actions.append(commands._ChoicesPseudoAction(name, (), summary))
        commands._name_parser_map[name] = command_parser(name)
    return whole
