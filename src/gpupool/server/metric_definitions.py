"""The gauges and counters of /metrics that are made of a row each: name, help text, value.

The names are a contract, frozen by tests/golden/metrics_names.txt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.wire.capacity import ModelRoom
from gpupool.wire.samples import CardUse, UsageOut

#: Labels of a card, and of what a tenant's jobs use of it.
CARD = ("card", "node", "model")
SHARE = (*CARD, "tenant")
#: Each: name after `gpupool_share_`, help, how the value is read; None is absent.
SHARE_GAUGES: Mapping[str, tuple[str, Callable[[CardUse], int | None]]] = {
    "memory_used_bytes": (
        "Memory of the card that the driver has given to the tenant's jobs.",
        lambda u: u.used_bytes,
    ),
    "memory_reserved_bytes": (
        "The same with what is being asked for: what counts against the limits.",
        lambda u: u.reserved_bytes,
    ),
    "unaccounted_bytes": (
        "Memory that the card says the tenant's jobs use beyond the fence's ledger.",
        lambda u: u.unaccounted_bytes,
    ),
}
#: Each: name, help, key of the sums, and how many of their unit are one of the metric's.
SHARE_COUNTERS: Mapping[str, tuple[str, str, int]] = {
    "gpu_seconds": (
        "GPU time that the tenant's jobs used of the card, measured.",
        "gpu_nanoseconds",
        NANOS_PER_SECOND,
    ),
    "wait_seconds": (
        "Time in which their threads were held back.",
        "wait_nanoseconds",
        NANOS_PER_SECOND,
    ),
    "throttled_seconds": (
        "The part of it for which the share was used up.",
        "throttled_nanoseconds",
        NANOS_PER_SECOND,
    ),
    "launches": ("Kernels, graphs and copies that they submitted.", "launches", 1),
    "refusals": ("Allocations refused for the limit of a share.", "refusals", 1),
}
#: Of the cards' rows, after `gpupool_card_`.
CARD_GAUGES: Mapping[str, tuple[str, Callable[[Any], float | None]]] = {
    "capacity_milli": ("Thousandths of a card that it can give.", lambda row: 1000),
    "held_milli": ("Thousandths of the card that shares hold now.", lambda row: row.used_milli),
    "capacity_bytes": ("Memory of the card.", lambda row: row.memory_bytes),
    "held_bytes": ("Memory of the card that shares hold now.", lambda row: row.used_bytes),
    "shares": ("Shares on the card now.", lambda row: row.shares),
}
MODEL_GAUGES: Mapping[str, tuple[str, Callable[[ModelRoom], float | None]]] = {
    "free_milli": ("Thousandths of cards that could be given out.", lambda room: room.free_milli),
    "largest_milli": (
        "The largest share that one card can take: compute.",
        lambda room: room.largest_milli,
    ),
    "largest_bytes": (
        "The largest share that one card can take: memory.",
        lambda room: room.largest_bytes,
    ),
    "whole_free": ("Cards on which nothing is held.", lambda room: room.whole_free),
    "whole_on_one_node": (
        "The largest claim of whole cards that one node can take.",
        lambda r: r.whole_on_one_node,
    ),
    "whole_nodes": ("Nodes of which every card is wholly free.", lambda room: room.whole_nodes),
    "fragment_milli": (
        "Free and of no use to an expected claim, on average.",
        lambda room: room.fragment_milli,
    ),
}
#: Of the latest sample of a card, after `gpupool_card_`.
HARDWARE_GAUGES: Mapping[str, tuple[str, Callable[[UsageOut], float | None]]] = {
    "utilization_percent": (
        "What the card says of its load.",
        lambda usage: usage.utilization_percent,
    ),
    "memory_used_bytes": ("Memory in use as the card says.", lambda usage: usage.memory_used_bytes),
    "power_watts": ("Power that the card draws.", lambda usage: usage.power_watts),
    "temperature_celsius": ("The card's temperature.", lambda usage: usage.temperature_celsius),
}
