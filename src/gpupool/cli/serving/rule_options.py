"""Options of a service's rule: bounds, load, checks and times."""

from __future__ import annotations

import argparse
from typing import Any, Final

from gpupool.base.units import parse_duration
from gpupool.terminal.parser import CommandParser, integer_within

_MOST_REPLICAS: Final = 64
#: Option, its field of the API, what it is, smallest, largest, placeholder, help.
_NUMBERS: Final = (
    ("--min", "min_replicas", 0, _MOST_REPLICAS, "replicas at least; 0: none without requests"),
    ("--max", "max_replicas", 1, _MOST_REPLICAS, "replicas at most"),
    (
        "--target",
        "target",
        1,
        100_000,
        "load of one replica (default 10 requests, or 70 percent of its share)",
    ),
    (
        "--check-failures",
        "check_failures",
        1,
        100,
        "failed checks in a row after which a replica is replaced (default 3)",
    ),
)
_TIMES: Final = (
    (
        "--up-after",
        "up_seconds",
        "more replicas start once they were needed for so long (default: at once)",
    ),
    (
        "--down-after",
        "down_seconds",
        "replicas end once they were not needed for so long (default 5m)",
    ),
    ("--check-every", "check_seconds", "between two checks of a replica (default 10s)"),
    (
        "--start-within",
        "start_seconds",
        "a running replica that is not healthy then is replaced (default 10m)",
    ),
    (
        "--drain-within",
        "drain_seconds",
        "for the requests under way when a replica ends (default 2m)",
    ),
    (
        "--wait-within",
        "wait_seconds",
        "a request waits so long for a healthy replica (default 1m)",
    ),
)


def add_bounds(parser: CommandParser) -> None:
    """Add the options that say how many replicas there are."""
    for flag, name, smallest, largest, text in _NUMBERS[:3]:
        parser.add_argument(
            flag,
            dest=name,
            type=integer_within(flag, "the number", smallest, largest),
            metavar="N",
            help=text,
        )
    parser.add_argument(
        "--measure",
        choices=("requests", "gpu"),
        help="requests under way, or percent of its own share that a replica uses (default requests)",
    )


def add_rule(parser: CommandParser) -> None:
    """Add every option of a rule."""
    add_bounds(parser)
    parser.add_argument(
        "--check-path",
        dest="check_path",
        metavar="PATH",
        help="a healthy replica answers it with 200 to 399 (default: it accepts connections)",
    )
    for flag, name, smallest, largest, text in _NUMBERS[3:]:
        parser.add_argument(
            flag,
            dest=name,
            type=integer_within(flag, "the number", smallest, largest),
            metavar="N",
            help=text,
        )
    for flag, name, text in _TIMES:
        parser.add_argument(flag, dest=name, type=parse_duration, metavar="TIME", help=text)


def read_rule(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the rule that were given."""
    names = [one[1] for one in (*_NUMBERS, *_TIMES)]
    found = {name: getattr(options, name, None) for name in (*names, "measure", "check_path")}
    return {name: value for name, value in found.items() if value is not None}


def build_new_rule(options: argparse.Namespace) -> dict[str, Any]:
    """Return the rule of a new service: --min alone is the number of replicas."""
    rule = read_rule(options)
    if "min_replicas" in rule:
        rule.setdefault("max_replicas", max(1, rule["min_replicas"]))
    elif "max_replicas" in rule:
        rule["min_replicas"] = 1
    return rule
