"""`gpupool gpus`: cards, what is held of them and what could still be placed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpupool.base.units import format_gpu
from gpupool.cli.accounts import tenant_limits
from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import (
    add_limit,
    describe_age,
    describe_compute,
    describe_memory,
    fetch_rows,
    print_more_hint,
)
from gpupool.terminal.output import UNKNOWN, Row, TableColumn, clean_text, count_noun, print_list
from gpupool.terminal.parser import CommandParser, add_output, one_of

#: Words of the API, repeated here: importing its shapes costs more than the request.
STATES = ("observed", "adopted", "draining", "lost")
HEALTH = ("ok", "warning", "failed", "unknown")
_COLORS = {"ok": "green", "warning": "yellow", "failed": "red"}


def register(parser: CommandParser) -> None:
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
    parser.add_argument(
        "--state", type=one_of("--state", *STATES), metavar="STATE", help=", ".join(STATES)
    )
    parser.add_argument(
        "--health", type=one_of("--health", *HEALTH), metavar="HEALTH", help=", ".join(HEALTH)
    )
    add_limit(parser)
    add_output(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    query = {key: getattr(options, key) for key in ("model", "node", "state", "health")}
    rows, more = fetch_rows(context, "devices", query, options.output, options.limit)
    people = options.output in ("table", "wide")
    if people and rows:
        sys.stdout.write(format_title(rows, more) + "\n\n")
    empty = (
        "no such cards"
        if any(query.values())
        else "this pool has no cards\n  gpupool doctor  says what it looked for"
    )
    capacity = context.api.request("GET", "capacity") if people and rows else {"models": []}
    yours = capacity.get("yours")
    rows = [{**row, "yours": yours} for row in rows] if people else rows
    print_list(rows, COLUMNS, options.output, fields=_list_fields, empty=empty, color=context.color)
    if people:
        _print_others(rows)
        _print_partitions(rows)
        _print_idle(capacity.get("idle", ()), {row["uuid"] for row in rows})
        _print_placeable(capacity["models"], {row["model"] for row in rows}, options.output)
        if yours:
            _print_for_caller(yours)
    if options.output == "wide":
        _print_beside_cards(context, {row["node"] for row in rows})
    if more:
        print_more_hint(options.limit)
    return 0


def _list_fields() -> list[str]:
    from gpupool.wire.fleet import DeviceOut

    return list(DeviceOut.model_fields)


def format_title(rows: Sequence[Row], more: bool = False) -> str:
    """Format `16 cards on 2 nodes: 16 × H200   SIMULATED`."""
    models = Counter(row["model"] for row in rows)
    nodes = len({row["node"] for row in rows})
    kinds = ", ".join(f"{count} × {clean_text(model)}" for model, count in sorted(models.items()))
    line = f"{count_noun(len(rows), 'card')}{' (more follow)' if more else ''} on {count_noun(nodes, 'node')}: {kinds}"
    simulated = [row["simulated"] for row in rows].count(True)
    mark = ""
    if simulated:
        mark = "SIMULATED" if simulated == len(rows) else f"{simulated} SIMULATED"
    return f"{line}   {mark}".rstrip()


def describe_largest(row: Row) -> str | None:
    """Format the largest share that fits now and the caller's quota leaves, in both numbers.

    In partition mode it is the largest profile that fits.
    """
    if row["state"] != "adopted" or row["cluster"]:
        return None
    if row.get("mps_owner"):
        return f"MPS of {clean_text(row['mps_owner'])} alone"
    if row["mix"] is not None:
        # The API sends profiles by size, the smallest first.
        for name, places in reversed(row["fits"].items()):
            if places:
                return str(name)
        return "no partition"
    share = tenant_limits.cap_share(row["largest_milli"], row["largest_bytes"], row.get("yours"))
    return (
        share
        if isinstance(share, str)
        else f"{describe_compute(share[0])} + {describe_memory(share[1])}"
    )


def describe_health(row: Row) -> str:
    """Format a card's health and why it is not well."""
    if row["health"] == "unknown":
        return UNKNOWN
    reason = f": {row['health_reason']}" if row["health_reason"] else ""
    return f"{row['health']}{reason}"


def describe_measurement(row: Row, name: str, form: str) -> str | None:
    """Format a measurement of the card itself; None when the card tells none."""
    value = row["usage"].get(name)
    return None if value is None else form.format(value)


def _print_others(rows: Sequence[Row]) -> None:
    """Print the processes that the pool did not start."""
    found: list[dict[str, Any]] = []
    for row in rows:
        for process in row["unmanaged"]:
            found.append({**process, "card": row["name"]})
    if found:
        sys.stdout.write("\nnot started by the pool:\n\n")
        print_list(found, PROCESSES, "table")


def _print_partitions(rows: Sequence[Row]) -> None:
    """Print what cards in partition mode are cut into, and what still fits beside it."""
    cut = [row for row in rows if row["mix"] is not None]
    if cut:
        sys.stdout.write("\ncards in partition mode:\n\n")
        print_list(cut, PARTITIONS, "table")


def _print_idle(rooms: Sequence[Row], cards: set[str]) -> None:
    """Print what running shares and those suspended while idle have of their cards."""
    found = [room for room in rooms if room["uuid"] in cards]
    if found:
        sys.stdout.write("\nsuspended while idle:\n\n")
        print_list(found, IDLE, "table")


def describe_kept(room: Row) -> str | None:
    """Format what is free of a card and kept for suspended jobs: compute only where it is kept."""
    # A server from before the fields says nothing of it.
    size = describe_memory(room.get("kept_bytes"))
    milli = room.get("kept_milli")
    return f"{describe_compute(milli)} + {size}" if milli else size


def describe_fits(row: Row) -> str:
    """Format what still fits by profile, each for itself: `7 x 1g.18gb, 3g.71gb`."""
    words = []
    for name, places in row["fits"].items():
        if places:
            words.append(clean_text(name) if places == 1 else f"{places} x {clean_text(name)}")
    return ", ".join(words) or "nothing"


def _print_for_caller(yours: Row) -> None:
    """Print what the quotas leave the caller's tenant of all that."""
    for name, value in tenant_limits.list_facts(yours):
        sys.stdout.write(f"\ntenant {clean_text(yours['tenant'])} {name}: {value}\n")


def _print_placeable(rooms: Sequence[Row], models: set[str], output: str) -> None:
    """Print what fits by model, of the whole pool, for every caller."""
    found = [room for room in rooms if room["model"] in models]
    if found:
        sys.stdout.write("\nwhat still fits in the pool:\n\n")
        print_list(found, ROOMS, output)
    for room in found:
        # A server from before the field has no such card.
        if room.get("mps_cards"):
            sys.stdout.write(f"\n{describe_mps_room(room)}\n")


def describe_mps_room(room: Row) -> str:
    """Format what is free on cards that serve MPS clients."""
    cards = count_noun(room["mps_cards"], f"{clean_text(room['model'])} card")
    serve = "serves" if room["mps_cards"] == 1 else "serve"
    alone = "its owner" if room["mps_cards"] == 1 else "their owners"
    free = f"{format_gpu(room['mps_free_milli'])} GPU is free there"
    return f"{cards} {serve} MPS clients: {free}, for MPS shares of {alone} alone"


def _print_beside_cards(context: CommandContext, names: set[str]) -> None:
    """Print what is free of these nodes' processors and main memory, by NUMA node."""
    nodes = iterate_items(context.api, "nodes", {})
    found = []
    for node in nodes:
        if node["name"] in names:
            for numa in node["numa"]:
                found.append({**numa, "node": node["name"]})
    if found:
        sys.stdout.write("\nfree beside the cards, by NUMA node:\n\n")
        print_list(found, NUMA, "table")


def describe_fragments(room: Row) -> str | None:
    """Format what is free and of no use to an expected claim, of all that is free."""
    if room["fragment_milli"] is None:
        return None
    return f"{format_gpu(round(room['fragment_milli']))} of {format_gpu(room['free_milli'])} free"


COLUMNS = (
    TableColumn("CARD", lambda row: row["name"]),
    TableColumn("MODEL", lambda row: row["model"], spare=3),
    TableColumn("MEMORY", lambda row: describe_memory(row["memory_bytes"]), right=True, spare=2),
    TableColumn(
        "HELD",
        lambda row: f"{describe_compute(row['used_milli'])} + {describe_memory(row['used_bytes'])}",
        spare=1,
    ),
    TableColumn("SHARES", lambda row: row["shares"], right=True, spare=4),
    TableColumn("LARGEST PLACEABLE", describe_largest),
    TableColumn("HEALTH", describe_health, color=lambda row: _COLORS.get(row["health"])),
    TableColumn(
        "STATE", lambda row: f"{row['state']}, cluster" if row["cluster"] else row["state"]
    ),
    TableColumn(
        "BUSY",
        lambda row: describe_measurement(row, "utilization_percent", "{:.0f} %"),
        wide=True,
        right=True,
    ),
    TableColumn(
        "USED",
        lambda row: describe_memory(row["usage"].get("memory_used_bytes")),
        wide=True,
        right=True,
    ),
    TableColumn(
        "POWER",
        lambda row: describe_measurement(row, "power_watts", "{:.0f} W"),
        wide=True,
        right=True,
    ),
    TableColumn(
        "TEMP",
        lambda row: describe_measurement(row, "temperature_celsius", "{:.0f} °C"),
        wide=True,
        right=True,
    ),
    TableColumn("SIMULATED", lambda row: "SIMULATED" if row["simulated"] else "no", wide=True),
    TableColumn("UUID", lambda row: row["uuid"], wide=True),
    TableColumn("PRODUCT", lambda row: row["product"], wide=True),
)
ROOMS = (
    TableColumn("MODEL", lambda room: room["model"]),
    TableColumn(
        "LARGEST SHARE",
        lambda room: (
            f"{describe_compute(room['largest_milli'])} + {describe_memory(room['largest_bytes'])}"
        ),
    ),
    TableColumn("WHOLE CARDS", lambda room: room["whole_free"], right=True),
    TableColumn("ON ONE NODE", lambda room: room["whole_on_one_node"], right=True, spare=1),
    TableColumn("WHOLE NODES", lambda room: room["whole_nodes"], right=True, spare=2),
    TableColumn("OF NO USE", describe_fragments, spare=3),
)
NUMA = (
    TableColumn("NODE", lambda numa: numa["node"]),
    TableColumn("NUMA", lambda numa: numa["number"], right=True),
    TableColumn(
        "PROCESSORS",
        lambda numa: f"{numa['free_cpu_milli'] / 1000:g} of {numa['cpu_milli'] / 1000:g}",
    ),
    TableColumn(
        "MEMORY",
        lambda numa: (
            f"{describe_memory(numa['free_bytes'])} of {describe_memory(numa['memory_bytes'])}"
        ),
    ),
    TableColumn("WHICH", lambda numa: numa["cpus"]),
)
PARTITIONS = (
    TableColumn("CARD", lambda row: row["name"]),
    TableColumn("CUT INTO", lambda row: clean_text(row["mix"]) or "nothing yet"),
    TableColumn("STILL FITS, EACH ALONE", describe_fits),
)
IDLE = (
    TableColumn("CARD", lambda room: room["card"]),
    TableColumn("JOBS", lambda room: room["jobs"], right=True),
    TableColumn("WANT TO WORK", lambda room: room["wanted"], right=True),
    TableColumn("SUSPENDED", lambda room: describe_memory(room["suspended_bytes"]), right=True),
    TableColumn("RUNNING", lambda room: describe_memory(room["running_bytes"]), right=True),
    TableColumn("KEPT FREE", describe_kept, right=True),
    TableColumn("TOGETHER AT MOST", lambda room: describe_memory(room["limit_bytes"]), right=True),
)
PROCESSES = (
    TableColumn("CARD", lambda row: row["card"]),
    TableColumn("PID", lambda row: row["pid"], right=True),
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("MEMORY", lambda row: describe_memory(row["memory_bytes"]), right=True),
    TableColumn("AGE", lambda row: describe_age(row["started_ns"]), right=True),
    TableColumn("PROCESS", lambda row: row["name"]),
)
