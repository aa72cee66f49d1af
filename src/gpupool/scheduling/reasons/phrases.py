"""Parts of messages: counts, sizes, amounts, kinds of cards and lists of names."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpupool.base.units import GIB, MIB, format_gpu, format_mib
from gpupool.model.claim import Shape
from gpupool.model.gang import MEMBER
from gpupool.model.quota import CELLS, MEMORY, NODE, Resource, split_resource


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: `1 card`, `16 cards`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_gib(size: int) -> str:
    """Return GiB, with one decimal rounded down unless they are whole: `140 GiB`, `140.4 GiB`."""
    tenths = size * 10 // GIB
    return f"{tenths // 10} GiB" if size % GIB == 0 else f"{tenths // 10}.{tenths % 10} GiB"


def format_two_sizes(asked: int, given: int) -> tuple[str, str]:
    """Return both sizes in GiB, or in MiB if they are small or would read the same.

    >>> format_two_sizes(200 * GIB, 140 * GIB), format_two_sizes(8193 * MIB, 8192 * MIB + 1)
    (('200 GiB', '140 GiB'), ('8193 MiB', '8192 MiB'))
    """
    wide = format_gib(asked), format_gib(given)
    alike = wide[0].replace(".0 ", " ") == wide[1].replace(".0 ", " ")
    return (format_mib(asked), format_mib(given)) if alike or min(asked, given) < GIB else wide


def format_kind(shape: Shape, noun: str = "card") -> str:
    """Return the kind of card that was asked for: `card`, `H200 card`, `H200 card with zone=a`."""
    model = f"{format_models(shape)} " if shape.model else ""
    return f"{model}{noun}" + (f" with {format_labels(shape)}" if shape.labels else "")


def format_models(shape: Shape) -> str:
    """Return `H200`, or `H200 or A100` if several models are accepted."""
    return (shape.model or "").replace("|", " or ")


def format_cores(cpu_milli: int) -> str:
    """Return processors with as many decimals as needed.

    >>> format_cores(8000), format_cores(3150)
    ('8', '3.15')
    """
    return f"{cpu_milli / 1000:.3f}".rstrip("0").rstrip(".")


def format_labels(shape: Shape) -> str:
    """Return the labels of the shape: `zone=a and disk=nvme`."""
    return " and ".join(f"{key}={value}" if value else key for key, value in shape.labels)


def quote_name(name: str) -> str:
    """Return a name in double quotes, escaped."""
    return json.dumps(name, ensure_ascii=False)


def format_amount(resource: Resource, amount: int) -> str:
    """Return an amount with its unit: `2.00 GPU`, `3.50 H200`, `8192 MiB`, `2 nodes`."""
    kind, model = split_resource(resource)
    if kind in CELLS:
        noun = "node" if kind == NODE else "NVLink domain"
        return format_count(amount, f"{model} {noun}" if model else noun)
    return format_mib(amount) if kind == MEMORY else f"{format_gpu(amount)} {model or 'GPU'}"


def format_amounts(resource: Resource, *each: int) -> list[str]:
    """Return amounts of one resource, with the unit only for memory."""
    format_one = format_amount if resource == MEMORY else format_number
    return [format_one(resource, one) for one in each]


def format_number(resource: Resource, amount: int) -> str:
    return (
        str(amount // MIB) if resource == MEMORY else format_amount(resource, amount).split(" ")[0]
    )


def format_members(count: int, role: str) -> str:
    """Return `4 members`, or `4 of role worker`.

    The members of a gang without named roles have the role MEMBER.
    """
    return format_count(count, role) if role == MEMBER else f"{count} of role {role}"


def format_list(words: Sequence[str]) -> str:
    """Return `A`, `A and B`, `A, B and C`, or `none`."""
    return (
        words[0]
        if len(words) == 1
        else ", ".join(words[:-1]) + " and " + words[-1]
        if words
        else "none"
    )
