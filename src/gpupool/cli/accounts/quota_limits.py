"""Read the limits of a quota as they are typed, and put them into the whole quota.

The API replaces a quota whole, so what was not typed is sent as it was read.
"""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.errors import BadFraction, BadOption
from gpupool.base.units import WHOLE, parse_memory
from gpupool.model.catalogue import VENDORS, find_vendor

#: What people type for no limit; null over HTTP.
NO_LIMIT = "none"
#: Flags, key of the quota, help; the options of tenants, and those of every node of the tree.
OPTIONS = (
    (
        ("--gpus",),
        "nominal_milli",
        "guaranteed compute in cards, e.g. 2 or 1.5; `none` is no limit",
    ),
    (
        ("--memory",),
        "nominal_memory_bytes",
        "guaranteed memory over all cards, e.g. 80GiB; `none` is no limit",
    ),
    (
        ("--borrow-gpus", "--borrow"),
        "borrowing_milli",
        "how far over the guaranteed compute it may go; `none` is any",
    ),
    (
        ("--borrow-memory",),
        "borrowing_memory_bytes",
        "how far over the guaranteed memory; `none` is any",
    ),
)
LENDING = (
    (
        ("--lend-gpus", "--lend"),
        "lending_milli",
        "unused guaranteed compute that others may use; `none` is all of it",
    ),
    (
        ("--lend-memory",),
        "lending_memory_bytes",
        "unused guaranteed memory that others may use; `none` is all of it",
    ),
)
#: Options that count whole nodes or NVLink domains, with the kind of resource.
_CELLS = (("nodes", "node"), ("nvlink_domains", "nvlink"))


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options of a tenant's compute and memory."""
    for flags, dest, text in OPTIONS:
        parser.add_argument(*flags, dest=dest, metavar="AMOUNT", help=text)


def add_branch(parser: argparse.ArgumentParser) -> None:
    """Add the options of a node of the quota tree, beside its compute and memory."""
    for flags, dest, text in LENDING:
        parser.add_argument(*flags, dest=dest, metavar="AMOUNT", help=text)
    parser.add_argument(
        "--weight",
        metavar="W",
        help="its fair-share weight among its siblings, e.g. 2, 0.5, or 0 for what they leave "
        "(default: 1)",
    )
    parser.add_argument(
        "--parent", metavar="COHORT", help="its cohort; `none`: directly below the pool"
    )
    model = "guaranteed cards of one model, M=N, or M=N+B to borrow B more; M=none for no limit (repeat)"
    parser.add_argument("--model", dest="models", action="append", metavar="M=N", help=model)
    vendor = "guaranteed cards of one vendor, V=N, or V=N+B to borrow B more; V=none for no limit (repeat)"
    parser.add_argument("--vendor", dest="vendors", action="append", metavar="V=N", help=vendor)
    nodes = "guaranteed whole nodes, N or M=N for nodes of one card model or vendor; nobody else breaks them (repeat)"
    parser.add_argument("--nodes", action="append", metavar="N", help=nodes)
    islands = "guaranteed whole NVLink domains, N or M=N (repeat)"
    parser.add_argument("--nvlink-domains", action="append", metavar="N", help=islands)


def apply_changes(quota: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the whole quota with what was typed put in.

    Raises:
        BadOption: Nothing was typed.
    """
    dests = [dest for _, dest, _ in (*OPTIONS, *LENDING)]
    given: dict[str, str] = {}
    for dest in dests:
        text = getattr(options, dest, None)
        if text is not None:
            given[dest] = text
    branch = read_branch(quota, options)
    if not given and not branch:
        raise BadOption(
            "nothing to set", hint="name a limit, e.g. --gpus 2;  gpupool quota set --help"
        )
    wanted = {}
    for dest in dests:
        wanted[dest] = read_limit(dest, given[dest]) if dest in given else quota.get(dest)
    for kind in ("milli", "memory_bytes"):
        nominal = f"nominal_{kind}"
        borrowing = f"borrowing_{kind}"
        if nominal in given and borrowing not in given and wanted[borrowing] is None:
            # A limit that is set is meant to hold: without this it could be borrowed past freely.
            wanted[borrowing] = 0 if wanted[nominal] is not None else None
    kept = {name: quota[name] for name in ("weight_milli", "cohort", "others") if name in quota}
    return wanted | kept | branch


def has_changes(options: argparse.Namespace) -> bool:
    """Whether any limit, weight or parent was typed."""
    dests = [dest for _, dest, _ in (*OPTIONS, *LENDING)]
    dests += ["weight", "parent", "models", "vendors", *(dest for dest, _ in _CELLS)]
    return any(getattr(options, dest, None) for dest in dests)


def read_branch(quota: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return weight, parent and the limits of models, vendors and cells, where they were typed."""
    weight = getattr(options, "weight", None)
    parent = getattr(options, "parent", None)
    found: dict[str, Any] = {} if weight is None else {"weight_milli": read_weight(weight)}
    if parent is not None:
        found["cohort"] = None if parent.lower() == NO_LIMIT else parent
    limits = [read_model(text) for text in getattr(options, "models", None) or ()]
    limits += [read_vendor(text) for text in getattr(options, "vendors", None) or ()]
    for dest, kind in _CELLS:
        limits += [read_cells(kind, text) for text in getattr(options, dest, None) or ()]
    if limits:
        known = {limit["resource"]: limit for limit in quota.get("others", ())}
        known |= {limit["resource"]: limit for limit in limits}
        # `none` for a resource takes its limit away; the rest is sorted, so that the same command
        # twice sends the same body.
        others = [known[resource] for resource in sorted(known)]
        found["others"] = [limit for limit in others if limit["nominal"] is not None]
    return found


def read_limit(dest: str, text: str) -> int | None:
    """Read a limit in milli-devices or bytes; None is no limit.

    Raises:
        BadFraction: Not a number of cards.
        BadQuantity: Not an amount of memory.
    """
    if text.lower() == NO_LIMIT:
        return None
    if dest.endswith("bytes"):
        return 0 if text == "0" else parse_memory(text)
    return parse_cards(text)


def parse_cards(text: str) -> int:
    """Read a number of cards as milli-devices: `2`, `1.5`, `0`.

    Quotas add up over cards, so fractions above one make sense here.

    >>> parse_cards("1.5"), parse_cards("0")
    (1500, 0)
    """
    whole, _, part = text.strip().partition(".")
    # Three decimals are a thousandth of a card, the smallest share; nine digits fit every column.
    if not (whole + part).isdigit() or not text.isascii() or len(part) > 3 or len(whole) > 9:
        raise BadFraction(
            f"{text!r} is not a number of cards",
            hint="write it like --gpus 2, --gpus 1.5 or --gpus none",
        )
    return int(whole or "0") * WHOLE + int(part.ljust(3, "0"))


def read_weight(text: str) -> int:
    """Read a weight in thousandths: `2`, `0.5`, `0`.

    >>> read_weight("0.5")
    500
    """
    try:
        weight = parse_cards(text)
    except BadFraction:
        weight = -1
    if not 0 <= weight <= 10**9:
        raise BadOption(f"--weight {text}: a weight is 0 or a number from 0.001 to 1000000")
    return weight


def read_model(text: str) -> dict[str, Any]:
    """Read a limit of one card model.

    >>> read_model("H200=4+2")
    {'resource': 'gpu:H200', 'nominal': 4000, 'borrowing': 2000, 'lending': None}
    """
    limit = _read_cards("--model", "H200", text)
    # `amd` would be a model that no card has: a limit that never holds, and no error.
    if (vendor := find_vendor(limit["resource"].partition(":")[2])) is not None:
        raise BadOption(
            f"--model {text}: {vendor} is a vendor, not a model",
            hint=f"write it like --vendor {vendor}=4",
        )
    return limit


def read_vendor(text: str) -> dict[str, Any]:
    """Read a limit of the cards of one vendor.

    >>> read_vendor("amd=4")
    {'resource': 'gpu:AMD', 'nominal': 4000, 'borrowing': 0, 'lending': None}
    """
    limit = _read_cards("--vendor", "amd", text)
    if find_vendor(limit["resource"].partition(":")[2]) is None:
        raise BadOption(
            f"--vendor {text}: got no known vendor, expected one of {', '.join(sorted(VENDORS))}"
        )
    return limit


def _read_cards(flag: str, example: str, text: str) -> dict[str, Any]:
    """Read `NAME=N`, `NAME=N+B` or `NAME=none`, of the model or vendor NAME."""
    name, equals, size = text.partition("=")
    if not (name and equals and size):
        raise BadOption(
            f"{flag} {text}: say how many cards of it", hint=f"write it like {flag} {example}=4"
        )
    nominal, plus, more = size.partition("+")
    borrowing = read_limit("milli", more) if plus else 0
    return _make_limit(f"gpu:{name.upper()}", read_limit("milli", nominal), borrowing, None)


def read_cells(kind: str, text: str) -> dict[str, Any]:
    """Read a guarantee of whole cells, which are not lent.

    >>> read_cells("node", "H200=2")
    {'resource': 'node:H200', 'nominal': 2, 'borrowing': None, 'lending': 0}
    """
    model, _, size = text.rpartition("=")
    if size.lower() != NO_LIMIT and not (size.isascii() and size.isdigit() and len(size) < 7):
        raise BadOption(
            f"{text!r} is not a number of whole {kind}s",
            hint="write it like --nodes 2 or --nodes H200=2",
        )
    nominal = None if size.lower() == NO_LIMIT else int(size)
    return _make_limit(f"{kind}:{model.upper()}" if model else kind, nominal, None, 0)


def _make_limit(
    resource: str, nominal: int | None, borrowing: int | None, lending: int | None
) -> dict[str, Any]:
    return {"resource": resource, "nominal": nominal, "borrowing": borrowing, "lending": lending}
