"""Writes docs/reference/cli.md from the parsers themselves. `--check` only says whether it is
current."""

from __future__ import annotations

import sys

from generated import ROOT, write_or_check

from gpupool.terminal.commands import GROUPS
from gpupool.terminal.help import format_command_help, format_exit_codes, format_overview
from gpupool.terminal.parser import build_parser

TARGET = ROOT / "docs" / "reference" / "cli.md"

HEAD = """# Command line

Made from the parsers by `make docs`; do not edit. Every command also prints its part with `--help`.

Which pool a command talks to, first match first: `--state-dir` or `GPUPOOL_STATE_DIR`; `GPUPOOL_URL` (with
`GPUPOOL_TOKEN` and `GPUPOOL_CA_FILE`); the login kept by `gpupool login`; your own pool; the system's pool.

Lists are written with `-o table|wide|json|yaml|csv`: `csv` and `json` always hold everything, `wide` more
columns. Unknown is `--`, never 0. Nothing is coloured into a pipe, with `--no-color`, or with `NO_COLOR` set.
Errors go to stderr as `gpupool: GP-nnnn: what happened`, then indented what to type next; the code is stable.
`GPUPOOL_DEBUG=1` shows where an internal error (GP-5900) came from.

## Exit codes

```
{codes}
```

`run` passes the job's own exit code through, 128 + N for a job that ended by signal N.

## Overview

```
{overview}
```
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD.format(codes=format_exit_codes(), overview=format_overview())]
    for title, commands in GROUPS:
        parts.append(f"## {title}\n")
        for name, _ in commands:
            parts += _command(name)
    return "\n".join(parts)


def _command(name: str) -> list[str]:
    parser = build_parser(name)
    parts = [f"### gpupool {name}\n", f"```\n{format_command_help(parser)}\n```\n"]
    if parser.children is not None:
        parts += [
            f"```\n{format_command_help(child)}\n```\n"
            for child in parser.children.choices.values()
        ]
    return parts


if __name__ == "__main__":
    sys.exit(write_or_check({TARGET: page()}))
