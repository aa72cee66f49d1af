"""`kubectl gpupool map`: nodes, their cards, and who has which share of them."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.units import WHOLE, format_gpu, format_mib
from gpupool.cli.output import Column, Row, many, print_list
from gpupool.cli.parser import Parser, add_output
from gpupool.kubernetes.objects import GpuNode, Mode
from gpupool.kubernetes.plugin.context import Context
from gpupool.kubernetes.reported import Card

_COLORS = {"ok": "green", "warning": "yellow", "failed": "red"}


def register(parser: Parser) -> None:
    parser.about = """
    Per card what is held of it and by whom, in both numbers, as its node's ledger has it. A node in mode `observe` is
    only looked at: `kubectl gpupool adopt NODE` changes that.
    """
    parser.examples = ["kubectl gpupool map", "kubectl gpupool map --node worker-1 -o wide"]
    parser.add_argument("--node", metavar="NODE", help="only this node")
    add_output(parser)


async def run(options: argparse.Namespace, context: Context) -> int:
    nodes = [node for node in await context.ledgers() if options.node in (None, node.name)]
    rows = [row for node in nodes for row in rows_of(node)]
    if options.output in ("table", "wide") and rows:
        sys.stdout.write(title(nodes) + "\n\n")
    empty = "no node reports a card\n  kubectl gpupool doctor  says what is missing"
    print_list(rows, COLUMNS, options.output, fields=lambda: FIELDS, empty=empty, color=context.color)
    return 0


def title(nodes: list[GpuNode]) -> str:
    """`8 cards on 2 nodes, 1 of them only looked at`."""
    looked = sum(node.mode is Mode.OBSERVE for node in nodes)
    cards = many(sum(len(node.cards) for node in nodes), "card")
    return f"{cards} on {many(len(nodes), 'node')}" + (f", {looked} of them only looked at" if looked else "")


def rows_of(node: GpuNode) -> list[dict[str, Any]]:
    """A row per card."""
    free = node.free()
    return [_row(node, card, free[card.uuid].gpu_milli, free[card.uuid].memory_bytes) for card in node.cards]


def _row(node: GpuNode, card: Card, free_milli: int, free_bytes: int) -> dict[str, Any]:
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
    }


def shares_of(node: GpuNode, uuid: str) -> list[dict[str, Any]]:
    """Who has a part of the card."""
    return [
        {
            "pod": f"{entry.namespace}/{entry.pod}",
            "container": entry.container,
            "tenant": entry.tenant,
            "gpu_milli": seat.gpu_milli,
            "memory_bytes": seat.memory_bytes,
            "state": entry.state.value,
        }
        for entry in node.entries
        for seat in entry.seats
        if seat.device == uuid
    ]


def share_text(share: Row) -> str:
    """`team/job: 0.30 GPU + 8192 MiB`, and how it stands unless it runs."""
    stands = "" if share["state"] == "active" else f" ({share['state']})"
    return f"{share['pod']}: {format_gpu(share['gpu_milli'])} GPU + {format_mib(share['memory_bytes'])}{stands}"


def _health(row: Row) -> str | None:
    return None if row["health"] == "unknown" else f"{row['health']} {row['health_reason']}".strip()


COLUMNS = (
    Column("CARD", lambda row: f"{row['node']}/{row['card']}"),
    Column("MODEL", lambda row: row["model"]),
    Column("MODE", lambda row: row["mode"] if row["ready"] else f"{row['mode']}, silent"),
    Column("HEALTH", _health, color=lambda row: _COLORS.get(row["health"])),
    Column("HELD", lambda row: f"{format_gpu(row['held_milli'])} GPU", right=True),
    Column("MEMORY", lambda row: f"{format_mib(row['held_memory_bytes'])} of {format_mib(row['memory_bytes'])}"),
    Column("UUID", lambda row: row["uuid"], wide=True),
    Column("SHARES", lambda row: ", ".join(share_text(one) for one in row["shares"]) or "free"),
)
FIELDS = (
    *("node", "card", "uuid", "model", "mode", "ready", "health", "health_reason"),
    *("memory_bytes", "held_milli", "held_memory_bytes", "shares"),
)
