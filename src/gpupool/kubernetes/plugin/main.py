"""The door of `kubectl gpupool`: finds the command, runs it, turns every end into the command
line's exit codes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from gpupool import __version__
from gpupool.base.errors import BadOption, GpupoolError, ServiceUnavailable
from gpupool.kubernetes.plugin import COMMANDS
from gpupool.terminal.help import format_command_help
from gpupool.terminal.nearest import find_nearest
from gpupool.terminal.output import print_error
from gpupool.terminal.parser import CommandParser, HelpShown

PROG = "kubectl gpupool"
INTERRUPTED = 130


def entry() -> None:
    """The console script, which kubectl finds by its name."""
    sys.exit(main(sys.argv[1:], os.environ))


def main(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command line; the exit code. Prints errors; raises nothing that is expected."""
    try:
        return _dispatch(list(words), environ)
    except HelpShown:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except GpupoolError as error:
        print_error(error)
        return error.exit_code


def parser_of(name: str) -> CommandParser:
    """One command's parser, with the options that all of them have."""
    parser = CommandParser(f"{PROG} {name}", COMMANDS[name])
    _module(name).register(parser)
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: KUBECONFIG, else ~/.kube/config"
    )
    parser.add_argument(
        "--pool-namespace",
        default="gpupool",
        metavar="NAME",
        help="where gpupool's own objects are",
    )
    parser.add_argument(
        "--no-color", action="store_true", help="plain text, also on a terminal (also NO_COLOR)"
    )
    return parser


def overview() -> str:
    """Every command in a line."""
    lines = [f"  {name:<12}{summary}" for name, summary in COMMANDS.items()]
    return "\n".join([f"{PROG}: the pool of a cluster", "", *lines, "", f"{PROG} COMMAND --help"])


def _dispatch(words: list[str], environ: Mapping[str, str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write((_help_of(words[1]) if len(words) > 1 else overview()) + "\n")
        return 0
    if words[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"gpupool {__version__}\n")
        return 0
    options = parser_of(_suggest_name(words[0])).parse_args(words[1:])
    return asyncio.run(_run(words[0], options, environ))


def _help_of(name: str) -> str:
    return format_command_help(parser_of(_suggest_name(name)))


def _suggest_name(name: str) -> str:
    if name not in COMMANDS:
        near = find_nearest(name, COMMANDS)
        hint = f"did you mean: {PROG} {near}" if near else f"{PROG} --help lists the commands"
        raise BadOption(f"unknown command {name!r}", hint=hint)
    return name


async def _run(name: str, options: Any, environ: Mapping[str, str]) -> int:
    try:
        from gpupool.kubernetes.plugin.context import open_context
    except ModuleNotFoundError as error:
        raise ServiceUnavailable(
            f"{PROG} needs {error.name}", hint="pip install 'gpupool[kubernetes]'"
        ) from None
    async with open_context(options, environ, datetime.now(UTC)) as context:
        code: int = await _module(name).run(options, context)
        return code


def _module(name: str) -> Any:
    return import_module(f"gpupool.kubernetes.plugin.{name}")
