"""The topology levels above the node, read from the labels of the nodes.

The levels are `zone`, `block`, `rack` and every label `gpupool.io/level-NAME`. Levels are ordered
by their number of domains, fewest first, so the order needs no configuration. One value names one
domain of the whole pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpupool.scheduling.snapshot.cards import TopologyLevel

PLAIN_LEVELS = ("zone", "block", "rack")
LEVEL_PREFIX = "gpupool.io/level-"


def build_levels(labels: Sequence[Mapping[str, str]]) -> tuple[TopologyLevel, ...]:
    """Return the levels that the labels of the nodes name, widest first."""
    names: dict[str, str] = {}
    for has in labels:
        for key in has:
            name = parse_level_name(key)
            if name:
                names[key] = name
    levels = []
    for key, name in names.items():
        values = [has.get(key) for has in labels]
        levels.append(_build_level(name, values))
    return tuple(sorted(levels, key=lambda level: (len(level.domains), level.name)))


def parse_level_name(label: str) -> str:
    """Return the name of the level that a label sets, or an empty string for any other label."""
    if label in PLAIN_LEVELS:
        return label
    if LEVEL_PREFIX in label:
        return label.removeprefix(LEVEL_PREFIX)
    return ""


def _build_level(name: str, values: Sequence[str | None]) -> TopologyLevel:
    domains = tuple(dict.fromkeys(value for value in values if value is not None))
    at = {domain: n for n, domain in enumerate(domains)}
    return TopologyLevel(
        name,
        domains,
        np.array([-1 if value is None else at[value] for value in values], dtype=np.int64),
    )
