"""Messages about locality inside a node; they contain words and plurals, and no decisions."""

from __future__ import annotations

from typing import NamedTuple

from gpupool.base.units import format_mib
from gpupool.model.claim import Shape
from gpupool.scheduling.reasons.phrases import format_cores, format_kind


class NumaNodeAmounts(NamedTuple):
    """One NUMA node and what it has."""

    node: str
    number: int
    cards: int
    cpu_milli: int
    host_bytes: int


def describe_not_in_one(shape: Shape, nearest: NumaNodeAmounts | None, *, now: bool) -> str:
    """Say that no NUMA node has everything, and name the nearest.

    `needs 1 card, 16 processors and 65536 MiB of one NUMA node; nearest is NUMA node 0 of a with …`
    """
    needs = f"needs {_format_amounts(shape, shape.count, shape.cpu_milli, shape.host_bytes)} of one NUMA node"
    if nearest is None:
        return f"{needs}; no such card{' is free on' if now else ' is on'} a NUMA node of which anything is known"
    has = _format_amounts(shape, nearest.cards, nearest.cpu_milli, nearest.host_bytes)
    return f"{needs}; nearest is NUMA node {nearest.number} of {nearest.node} with {has}{' free' if now else ''}"


def describe_not_joined(shape: Shape, level: str, nodes: int) -> str:
    """Say that nodes have enough free cards, but none of them in one domain of the level."""
    have = "1 node has" if nodes == 1 else f"{nodes} nodes have"
    return f"needs {_format_cards(shape)} in one {level} domain; {have} as many free, none in one {level} domain"


def describe_never_joined(shape: Shape, level: str) -> str:
    """Say that no node has that many cards in one domain of the level."""
    return f"no node of this pool has {_format_cards(shape)} in one {level} domain"


def _format_amounts(shape: Shape, cards: int, cpu_milli: int, host_bytes: int) -> str:
    """Return the amounts that the shape asks for: `2 cards, 16 processors and 65536 MiB`."""
    parts = [f"{cards} {format_kind(shape, 'card' if cards == 1 else 'cards')}"]
    parts += [f"{format_cores(cpu_milli)} processors"] if shape.cpu_milli else []
    parts += [format_mib(host_bytes)] if shape.host_bytes else []
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _format_cards(shape: Shape) -> str:
    return f"{shape.count} {format_kind(shape, 'cards')}"
