"""`gpupool quota`: show and set what a tenant may hold."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.errors import BadFraction, BadOption
from gpupool.base.units import WHOLE, format_gpu, parse_memory
from gpupool.cli.context import Context
from gpupool.cli.listing import limit_of, memory_limit, mib
from gpupool.cli.output import pairs, print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output
from gpupool.cli.references import segment

NO_LIMIT = "none"
_OPTIONS = (
    ("--gpus", "nominal_milli", "guaranteed compute in cards, e.g. 2 or 1.5; `none` is no limit"),
    ("--memory", "nominal_memory_bytes", "guaranteed memory over all cards, e.g. 80GiB; `none` is no limit"),
    ("--borrow-gpus", "borrowing_milli", "how far over the guaranteed compute it may go; `none` is no limit"),
    ("--borrow-memory", "borrowing_memory_bytes", "how far over the guaranteed memory; `none` is no limit"),
)


def register(parser: Parser) -> None:
    parser.about = """
    The nominal part is a tenant's own; with borrowing it may hold that much more. A claim beyond both together
    is refused; one that would go beyond them now waits.
    """
    parser.examples = [
        "gpupool quota show team-nlp",
        "gpupool quota set team-nlp --gpus 2 --memory 160GiB --borrow-gpus 1",
        "gpupool quota set team-nlp --gpus none",
    ]
    parser.group()
    show = parser.verb("show", "what a tenant may hold, and holds")
    show.add_argument("tenant", nargs="?", metavar="TENANT", help="default: your own")
    add_output(show, OBJECT_FORMATS)
    change = parser.verb("set", "set some limits; the others stay (a first guarantee allows no borrowing)")
    change.add_argument("tenant", metavar="TENANT", help="whose")
    for flag, dest, text in _OPTIONS:
        change.add_argument(flag, dest=dest, metavar="AMOUNT", help=text)
    add_output(change, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    tenant = options.tenant or context.api.request("GET", "whoami")["tenant"]
    path = f"tenants/{segment(tenant, 'tenant')}/quota"
    quota = context.api.request("GET", path)
    if options.verb == "set":
        wanted = changed(quota, options)
        quota = context.api.request("PUT", path, wanted, if_match=context.api.etag)
    if options.output != "table":
        print_data(quota, options.output)
    else:
        sys.stdout.write(pairs([("tenant", quota["tenant"]), *quota_facts(quota)]) + "\n")
    return 0


def changed(quota: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The whole quota with what was given put in."""
    given = {dest: getattr(options, dest) for _, dest, _ in _OPTIONS if getattr(options, dest) is not None}
    if not given:
        raise BadOption("nothing to set", hint="name a limit, e.g. --gpus 2;  gpupool quota set --help")
    wanted = {dest: read_limit(dest, given[dest]) if dest in given else quota[dest] for _, dest, _ in _OPTIONS}
    for kind in ("milli", "memory_bytes"):
        nominal, borrowing = f"nominal_{kind}", f"borrowing_{kind}"
        if nominal in given and borrowing not in given and wanted[borrowing] is None:
            wanted[borrowing] = 0 if wanted[nominal] is not None else None  # a limit that is set is meant to hold
    return wanted


def read_limit(dest: str, text: str) -> int | None:
    """A limit in milli-devices or bytes; None is no limit. Raises BadFraction, BadQuantity."""
    if text.lower() == NO_LIMIT:
        return None
    if dest.endswith("bytes"):
        return 0 if text == "0" else parse_memory(text)
    return parse_cards(text)


def parse_cards(text: str) -> int:
    """Milli-devices of `2`, `1.5`, `0`: quotas add up over cards, so fractions above one make sense here.

    >>> parse_cards("1.5"), parse_cards("0")
    (1500, 0)
    """
    whole, _, part = text.strip().partition(".")
    if not (whole + part).isdigit() or not text.isascii() or len(part) > 3 or len(whole) > 9:
        raise BadFraction(
            f"{text!r} is not a number of cards", hint="write it like --gpus 2, --gpus 1.5 or --gpus none"
        )
    return int(whole or "0") * WHOLE + int(part.ljust(3, "0"))


def quota_facts(quota: dict[str, Any]) -> list[tuple[str, object]]:
    """Held, guaranteed and the most, in both numbers."""
    return [
        ("holds now", f"{format_gpu(quota['held_milli'])} GPU + {mib(quota['held_memory_bytes'])}"),
        ("guaranteed", f"{limit_of(quota['nominal_milli'])} + {memory_limit(quota['nominal_memory_bytes'])}"),
        ("at most", f"{limit_of(quota['maximum_milli'])} + {memory_limit(quota['maximum_memory_bytes'])}"),
    ]
