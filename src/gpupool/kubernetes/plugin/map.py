"""`kubectl gpupool map`: nodes, their cards, and the pods that have shares of them."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from typing import Any

from gpupool.base.units import WHOLE, format_gpu, format_mib
from gpupool.kubernetes.plugin.context import Context
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.kubernetes.resources.gpu_node_status import ReportedCard
from gpupool.terminal.output import Row, TableColumn, count_noun, print_list
from gpupool.terminal.parser import CommandParser, add_output

_COLORS = {"ok": "green", "warning": "yellow", "failed": "red"}


def register(parser: CommandParser) -> None:
    parser.about = """
    Per card what is held of it and by whom, in both numbers, as its node's ledger has it. A node in mode `observe` is
    only looked at: `kubectl gpupool adopt NODE` changes that.
    """
    parser.examples = ["kubectl gpupool map", "kubectl gpupool map --node worker-1 -o wide"]
    parser.add_argument("--node", metavar="NODE", help="only this node")
    add_output(parser)


async def run(options: argparse.Namespace, context: Context) -> int:
    nodes = [one for one in await context.ledgers() if options.node in (None, one.name)]
    rows = list(chain.from_iterable(map(rows_of, nodes)))
    if options.output in ("table", "wide") and rows:
        sys.stdout.write(title(nodes) + "\n\n")
    empty = "no node reports a card\n  kubectl gpupool doctor  says what is missing"
    print_list(
        rows, COLUMNS, options.output, fields=lambda: FIELDS, empty=empty, color=context.color
    )
    return 0


def title(nodes: list[GpuNode]) -> str:
    """`8 cards on 2 nodes, 1 of them only looked at`."""
    looked = sum(node.mode is Mode.OBSERVE for node in nodes)
    cards = count_noun(sum(len(node.cards) for node in nodes), "card")
    return f"{cards} on {count_noun(len(nodes), 'node')}" + (
        f", {looked} of them only looked at" if looked else ""
    )


def rows_of(node: GpuNode) -> list[dict[str, Any]]:
    """Return one row for each card."""
    rows = []
    free = node.free_amounts()
    for card in node.cards:
        left = free[card.uuid]
        rows.append(_build_row(node, card, left.gpu_milli, left.memory_bytes))
    return rows


def _build_row(
    node: GpuNode, card: ReportedCard, free_milli: int, free_bytes: int
) -> dict[str, Any]:
    return {
        "node": node.name,
        "card": card.index,
        "uuid": card.uuid,
        "model": card.model,
        "mode": node.mode.value,
        "ready": node.ready,
        "health": card.health.value,
        "health_reason": card.health_reason,
        "memory_bytes": card.memory_bytes,
        "held_milli": WHOLE - free_milli,
        "held_memory_bytes": card.memory_bytes - free_bytes,
        "shares": shares_of(node, card.uuid),
        "foreign": [piece.describe() for piece in card.foreign],
    }


def shares_of(node: GpuNode, uuid: str) -> list[dict[str, Any]]:
    """Return the shares of the card, each with its pod."""
    shares = []
    for entry in node.entries:
        for seat in entry.seats:
            if seat.device != uuid:
                continue
            share = {
                "pod": f"{entry.namespace}/{entry.pod}",
                "container": entry.container,
                "tenant": entry.tenant,
                "gpu_milli": seat.gpu_milli,
                "memory_bytes": seat.memory_bytes,
                "state": entry.state.value,
            }
            shares.append(share)
    return shares


def share_text(share: Row) -> str:
    """`team/job: 0.30 GPU + 8192 MiB`, and how it stands unless it runs."""
    stands = "" if share["state"] == "active" else f" ({share['state']})"
    return f"{share['pod']}: {format_gpu(share['gpu_milli'])} GPU + {format_mib(share['memory_bytes'])}{stands}"


def _health(row: Row) -> str | None:
    return None if row["health"] == "unknown" else f"{row['health']} {row['health_reason']}".strip()


COLUMNS = (
    TableColumn("CARD", lambda row: f"{row['node']}/{row['card']}"),
    TableColumn("MODEL", lambda row: row["model"]),
    TableColumn("MODE", lambda row: row["mode"] if row["ready"] else f"{row['mode']}, silent"),
    TableColumn("HEALTH", _health, color=lambda row: _COLORS.get(row["health"])),
    TableColumn("HELD", lambda row: f"{format_gpu(row['held_milli'])} GPU", right=True),
    TableColumn(
        "MEMORY",
        lambda row: f"{format_mib(row['held_memory_bytes'])} of {format_mib(row['memory_bytes'])}",
    ),
    TableColumn("UUID", lambda row: row["uuid"], wide=True),
    TableColumn("FOREIGN", lambda row: ", ".join(row["foreign"]) or None, wide=True),
    TableColumn(
        "SHARES", lambda row: ", ".join(share_text(one) for one in row["shares"]) or "free"
    ),
)
FIELDS = (
    *("node", "card", "uuid", "model", "mode", "ready", "health", "health_reason"),
    *("memory_bytes", "held_milli", "held_memory_bytes", "shares", "foreign"),
)
