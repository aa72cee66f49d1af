"""What the verbs for the parts of a network share: their arguments, paths and requests."""

from __future__ import annotations

import argparse
import os
from typing import Any

from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser
from gpupool.terminal.references import quote_segment


def add_network(*verbs: CommandParser, text: str = "the network") -> None:
    """Add the arguments that name the network."""
    for verb in verbs:
        verb.add_argument("name", metavar="NAME", help=text)
        verb.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")


def build_path(options: argparse.Namespace, kind: str, **names: str) -> str:
    """Build the path of the parts of a kind, or below one of them.

    Args:
        names: what to append, by what an error calls it, as `group="web"`.
    """
    parts = ["networks", quote_segment(options.name, "network"), kind]
    parts += [quote_segment(name, what) for what, name in names.items()]
    return "/".join(parts)


def create_part(
    options: argparse.Namespace, context: CommandContext, path: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Create a part once, however often the request has to be sent."""
    made: dict[str, Any] = context.api.request(
        "POST",
        path,
        body,
        query={"tenant": options.tenant},
        idempotency_key=os.urandom(16).hex(),
    )
    return made


def list_parts(options: argparse.Namespace, context: CommandContext, path: str) -> list[Any]:
    found: list[Any] = context.api.request("GET", path, query={"tenant": options.tenant})
    return found


def delete_part(options: argparse.Namespace, context: CommandContext, path: str) -> None:
    context.api.request("DELETE", path, query={"tenant": options.tenant})
