"""The sentences of conditions on nearness inside a node; words and plurals, no decisions."""

from __future__ import annotations

from typing import NamedTuple

from gpupool.base.units import format_mib
from gpupool.model.claim import Shape
from gpupool.scheduling.wording import format_cores, named


class Numa(NamedTuple):
    """One NUMA node and what it has."""

    node: str
    number: int
    cards: int
    cpu_milli: int
    host_bytes: int


def not_in_one(shape: Shape, nearest: Numa | None, *, now: bool) -> str:
    """`needs 1 card, 16 processors and 65536 MiB of one NUMA node; nearest is NUMA node 0 of a with …`."""
    needs = f"needs {_amounts(shape, shape.count, shape.cpu_milli, shape.host_bytes)} of one NUMA node"
    if nearest is None:
        return f"{needs}; no such card{' is free on' if now else ' is on'} a NUMA node of which anything is known"
    has = _amounts(shape, nearest.cards, nearest.cpu_milli, nearest.host_bytes)
    return f"{needs}; nearest is NUMA node {nearest.number} of {nearest.node} with {has}{' free' if now else ''}"


def not_joined(shape: Shape, level: str, nodes: int) -> str:
    have = "1 node has" if nodes == 1 else f"{nodes} nodes have"
    return f"needs {_cards(shape)} in one {level} domain; {have} as many free, none in one {level} domain"


def never_joined(shape: Shape, level: str) -> str:
    return f"no node of this pool has {_cards(shape)} in one {level} domain"


def _amounts(shape: Shape, cards: int, cpu_milli: int, host_bytes: int) -> str:
    """What of it the shape asks for: `2 cards, 16 processors and 65536 MiB`."""
    parts = [f"{cards} {named(shape, 'card' if cards == 1 else 'cards')}"]
    parts += [f"{format_cores(cpu_milli)} processors"] if shape.cpu_milli else []
    parts += [format_mib(host_bytes)] if shape.host_bytes else []
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _cards(shape: Shape) -> str:
    return f"{shape.count} {named(shape, 'cards')}"
