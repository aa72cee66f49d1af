"""`kubectl gpupool top`: the pods that hold most of the pool, and how much of it they use."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.units import WHOLE, format_duration, format_gpu, format_mib
from gpupool.kubernetes.plugin.context import Context
from gpupool.kubernetes.plugin.using import ContainerUsage, read_usages
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode, Mode
from gpupool.terminal.output import TableColumn, count_noun, print_list
from gpupool.terminal.parser import CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.about = """
    Containers with cards, the largest first: what each holds, what it uses of that, where, and how far its node's agent
    has come with it. Use is asked of the agents (get of pods/proxy in gpupool's namespace); -- where it is unknown.
    """
    parser.examples = ["kubectl gpupool top", "kubectl gpupool top --tenant team-nlp -o json"]
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant's")
    add_output(parser)


async def run(options: argparse.Namespace, context: Context) -> int:
    nodes = await context.ledgers()
    rows = []
    for row in rows_of(nodes):
        if options.tenant in (None, row["tenant"]):
            rows.append(row)
    found, why = await read_usages(context, {row["node"] for row in rows})
    rows = [{**row, **_format_usage(found.get(_key(row), ContainerUsage()))} for row in rows]
    if why:
        sys.stderr.write(f"use is unknown in part: {why}\n")
    if options.output in ("table", "wide"):
        sys.stdout.write(title(nodes) + "\n\n")
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=lambda: FIELDS,
        empty="nobody holds a card",
        color=context.color,
    )
    return 0


def title(nodes: list[GpuNode]) -> str:
    """What is held of all cards that are handed out."""
    adopted = []
    for node in nodes:
        if node.mode is not Mode.OBSERVE:
            adopted.append(node)
    cards = sum(len(node.cards) for node in adopted)
    held = sum(seat.gpu_milli for node in adopted for entry in node.entries for seat in entry.seats)
    return f"{format_gpu(held)} of {format_gpu(cards * WHOLE)} GPU held on {count_noun(len(adopted), 'adopted node')}"


def rows_of(nodes: list[GpuNode]) -> list[dict[str, Any]]:
    """A row per container with cards, the largest first."""
    rows = [_row(node, entry) for node in nodes for entry in node.entries]
    return sorted(
        rows,
        key=lambda row: (-row["gpu_milli"], -row["memory_bytes"], row["pod"], row["container"]),
    )


def _row(node: GpuNode, entry: Entry) -> dict[str, Any]:
    index = {card.uuid: card.index for card in node.cards}
    return {
        "pod": f"{entry.namespace}/{entry.pod}",
        "container": entry.container,
        "tenant": entry.tenant,
        "node": node.name,
        "cards": [index.get(seat.device) for seat in entry.seats],
        "gpu_milli": sum(seat.gpu_milli for seat in entry.seats),
        "memory_bytes": sum(seat.memory_bytes for seat in entry.seats),
        "state": entry.state.value,
        "priority": entry.priority,
        "gang": entry.gang or None,
    }


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    namespace, _, pod = row["pod"].partition("/")
    return namespace, pod, row["container"]


def _format_usage(use: ContainerUsage) -> dict[str, Any]:
    return {"memory_used_bytes": use.memory_bytes, "gpu_seconds": use.gpu_seconds}


def _mib(size: int | None) -> str | None:
    return None if size is None else format_mib(size)


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration(seconds)


COLUMNS = (
    TableColumn("POD", lambda row: row["pod"]),
    TableColumn("CONTAINER", lambda row: row["container"], wide=True),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("GPU", lambda row: format_gpu(row["gpu_milli"]), right=True),
    TableColumn("MEMORY", lambda row: format_mib(row["memory_bytes"]), right=True),
    TableColumn("USED", lambda row: _mib(row["memory_used_bytes"]), right=True),
    TableColumn("GPU TIME", lambda row: _time(row["gpu_seconds"]), right=True),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("GANG", lambda row: row["gang"], wide=True),
    TableColumn(
        "CARDS",
        lambda row: (
            f"{row['node']}/" + ",".join("?" if n is None else str(n) for n in row["cards"])
        ),
    ),
)
FIELDS = (
    *(
        "pod",
        "container",
        "tenant",
        "node",
        "cards",
        "gpu_milli",
        "memory_bytes",
        "state",
        "priority",
        "gang",
    ),
    *("memory_used_bytes", "gpu_seconds"),
)
