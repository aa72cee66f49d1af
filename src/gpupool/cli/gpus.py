"""`gpupool gpus`: cards, what is held of them and what could still be placed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpupool.base.units import format_gpu
from gpupool.cli import own_room
from gpupool.cli.context import Context
from gpupool.cli.listing import add_limit, ago, compute, fetch, mib, more_hint
from gpupool.cli.output import UNKNOWN, Column, Row, clean, many, print_list
from gpupool.cli.parser import Parser, add_output, one_of
from gpupool.client.paging import every

STATES = ("observed", "adopted", "draining", "lost")
HEALTH = ("ok", "warning", "failed", "unknown")
_COLORS = {"ok": "green", "warning": "yellow", "failed": "red"}


def register(parser: Parser) -> None:
    parser.about = """
    Per card: what is held of it in both numbers, the largest share that you could be given now, health and state.
    Below, by model: the largest claims that fit now, and what is free and of no use to the claims that are expected;
    with -o wide also what is free of each node's processors and main memory, by NUMA node.
    Cards in state `observed` are shown and never touched; processes on them that the pool did not start are
    listed below.
    """
    parser.examples = ["gpupool gpus", "gpupool gpus --model H200 -o wide", "gpupool gpus -o json"]
    parser.add_argument("--model", metavar="MODEL", help="only this model")
    parser.add_argument("--node", metavar="NODE", help="only this node")
    parser.add_argument("--state", type=one_of("--state", *STATES), metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--health", type=one_of("--health", *HEALTH), metavar="HEALTH", help=", ".join(HEALTH))
    add_limit(parser)
    add_output(parser)


def run(options: argparse.Namespace, context: Context) -> int:
    query = {key: getattr(options, key) for key in ("model", "node", "state", "health")}
    rows, more = fetch(context, "devices", query, options.output, options.limit)
    people = options.output in ("table", "wide")
    if people and rows:
        sys.stdout.write(title(rows, more) + "\n\n")
    empty = (
        "no such cards" if any(query.values()) else "this pool has no cards\n  gpupool doctor  says what it looked for"
    )
    capacity = context.api.request("GET", "capacity") if people and rows else {"models": []}
    yours = capacity.get("yours")
    rows = [{**row, "yours": yours} for row in rows] if people else rows
    print_list(rows, COLUMNS, options.output, fields=_fields, empty=empty, color=context.color)
    if people:
        _others(rows)
        _partitions(rows)
        _still_placeable(capacity["models"], {row["model"] for row in rows})
        if yours:
            _for_caller(yours)
    if options.output == "wide":
        _beside_cards(context, {row["node"] for row in rows})
    if more:
        more_hint(options.limit)
    return 0


def _fields() -> list[str]:
    from gpupool.wire.fleet import DeviceOut

    return list(DeviceOut.model_fields)


def title(rows: Sequence[Row], more: bool = False) -> str:
    """`16 cards on 2 nodes: 16 × H200   SIMULATED`."""
    models = Counter(row["model"] for row in rows)
    nodes = len({row["node"] for row in rows})
    kinds = ", ".join(f"{count} × {clean(model)}" for model, count in sorted(models.items()))
    line = f"{many(len(rows), 'card')}{' (more follow)' if more else ''} on {many(nodes, 'node')}: {kinds}"
    simulated = sum(1 for row in rows if row["simulated"])
    mark = "SIMULATED" if simulated == len(rows) else f"{simulated} SIMULATED" if simulated else ""
    return f"{line}   {mark}".rstrip()


def largest(row: Row) -> str | None:
    """The largest share that fits now and the caller's quota leaves: both numbers; in partition mode the profile."""
    if row["state"] != "adopted" or row["cluster"]:
        return None
    if row["mix"] is not None:
        return next((name for name, places in reversed(row["fits"].items()) if places), "no partition")
    share = own_room.at_most(row["largest_milli"], row["largest_bytes"], row.get("yours"))
    return share if isinstance(share, str) else f"{compute(share[0])} + {mib(share[1])}"


def health(row: Row) -> str:
    if row["health"] == "unknown":
        return UNKNOWN
    reason = f": {row['health_reason']}" if row["health_reason"] else ""
    return f"{row['health']}{reason}"


def measured(row: Row, name: str, form: str) -> str | None:
    """A measurement of the card itself, None when it tells none."""
    value = row["usage"].get(name)
    return None if value is None else form.format(value)


def _others(rows: Sequence[Row]) -> None:
    """Processes that the pool did not start."""
    found: list[dict[str, Any]] = [{**process, "card": row["name"]} for row in rows for process in row["unmanaged"]]
    if found:
        sys.stdout.write("\nnot started by the pool:\n\n")
        print_list(found, PROCESSES, "table")


def _partitions(rows: Sequence[Row]) -> None:
    """What cards in partition mode are cut into, and what still fits beside it."""
    cut = [row for row in rows if row["mix"] is not None]
    if cut:
        sys.stdout.write("\ncards in partition mode:\n\n")
        print_list(cut, PARTITIONS, "table")


def still_fits(row: Row) -> str:
    """By profile, each for itself: `7 x 1g.18gb, 3g.71gb`."""
    open_ = [(name, places) for name, places in row["fits"].items() if places]
    return ", ".join(clean(name) if places == 1 else f"{places} x {clean(name)}" for name, places in open_) or "nothing"


def _for_caller(yours: Row) -> None:
    """What the quotas leave the caller's tenant of all that."""
    for name, value in own_room.facts(yours):
        sys.stdout.write(f"\ntenant {clean(yours['tenant'])} {name}: {value}\n")


def _still_placeable(rooms: Sequence[Row], models: set[str]) -> None:
    """By model, of the whole pool, for every caller."""
    found = [room for room in rooms if room["model"] in models]
    if found:
        sys.stdout.write("\nwhat still fits in the pool:\n\n")
        print_list(found, ROOMS, "table")


def _beside_cards(context: Context, names: set[str]) -> None:
    """What is free of these nodes' processors and main memory, by NUMA node."""
    nodes = every(context.api, "nodes", {})
    found = [{**numa, "node": node["name"]} for node in nodes if node["name"] in names for numa in node["numa"]]
    if found:
        sys.stdout.write("\nfree beside the cards, by NUMA node:\n\n")
        print_list(found, NUMA, "table")


def fragmented(room: Row) -> str | None:
    """What is free and of no use to an expected claim, of all that is free."""
    if room["fragment_milli"] is None:
        return None
    return f"{format_gpu(round(room['fragment_milli']))} of {format_gpu(room['free_milli'])} free"


COLUMNS = (
    Column("CARD", lambda row: row["name"]),
    Column("MODEL", lambda row: row["model"], spare=3),
    Column("MEMORY", lambda row: mib(row["memory_bytes"]), right=True, spare=2),
    Column("HELD", lambda row: f"{compute(row['used_milli'])} + {mib(row['used_bytes'])}", spare=1),
    Column("SHARES", lambda row: row["shares"], right=True, spare=4),
    Column("LARGEST PLACEABLE", largest),
    Column("HEALTH", health, color=lambda row: _COLORS.get(row["health"])),
    Column("STATE", lambda row: f"{row['state']}, cluster" if row["cluster"] else row["state"]),
    Column("BUSY", lambda row: measured(row, "utilization_percent", "{:.0f} %"), wide=True, right=True),
    Column("USED", lambda row: mib(row["usage"].get("memory_used_bytes")), wide=True, right=True),
    Column("POWER", lambda row: measured(row, "power_watts", "{:.0f} W"), wide=True, right=True),
    Column("TEMP", lambda row: measured(row, "temperature_celsius", "{:.0f} °C"), wide=True, right=True),
    Column("SIMULATED", lambda row: "SIMULATED" if row["simulated"] else "no", wide=True),
    Column("UUID", lambda row: row["uuid"], wide=True),
    Column("PRODUCT", lambda row: row["product"], wide=True),
)
ROOMS = (
    Column("MODEL", lambda room: room["model"]),
    Column("LARGEST SHARE", lambda room: f"{compute(room['largest_milli'])} + {mib(room['largest_bytes'])}"),
    Column("WHOLE CARDS", lambda room: room["whole_free"], right=True),
    Column("ON ONE NODE", lambda room: room["whole_on_one_node"], right=True, spare=1),
    Column("WHOLE NODES", lambda room: room["whole_nodes"], right=True, spare=2),
    Column("OF NO USE", fragmented, spare=3),
)
NUMA = (
    Column("NODE", lambda numa: numa["node"]),
    Column("NUMA", lambda numa: numa["number"], right=True),
    Column("PROCESSORS", lambda numa: f"{numa['free_cpu_milli'] / 1000:g} of {numa['cpu_milli'] / 1000:g}"),
    Column("MEMORY", lambda numa: f"{mib(numa['free_bytes'])} of {mib(numa['memory_bytes'])}"),
    Column("WHICH", lambda numa: numa["cpus"]),
)
PARTITIONS = (
    Column("CARD", lambda row: row["name"]),
    Column("CUT INTO", lambda row: clean(row["mix"]) or "nothing yet"),
    Column("STILL FITS, EACH ALONE", still_fits),
)
PROCESSES = (
    Column("CARD", lambda row: row["card"]),
    Column("PID", lambda row: row["pid"], right=True),
    Column("USER", lambda row: row["user"]),
    Column("MEMORY", lambda row: mib(row["memory_bytes"]), right=True),
    Column("AGE", lambda row: ago(row["started_ns"]), right=True),
    Column("PROCESS", lambda row: row["name"]),
)
