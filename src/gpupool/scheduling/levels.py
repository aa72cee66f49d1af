"""The levels above the node, read from the nodes' labels.

They are `zone`, `block` and `rack`, and whatever is called `gpupool.io/level-NAME`. Their order, widest first, is that
of how few domains they have, so nobody has to write it down; a value names one domain of the whole pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpupool.scheduling.snapshot import Level

PLAIN_LEVELS = ("zone", "block", "rack")
LEVEL_PREFIX = "gpupool.io/level-"


def levels_of(labels: Sequence[Mapping[str, str]]) -> tuple[Level, ...]:
    """The levels above the node that the labels name, from the widest to the narrowest."""
    keys = dict.fromkeys(key for has in labels for key in has if level_name(key))
    levels = [_level(level_name(key), [has.get(key) for has in labels]) for key in keys]
    return tuple(sorted(levels, key=lambda level: (len(level.domains), level.name)))


def level_name(label: str) -> str:
    """The level that a label is about, `` for any other label."""
    return label if label in PLAIN_LEVELS else label.removeprefix(LEVEL_PREFIX) if LEVEL_PREFIX in label else ""


def _level(name: str, values: Sequence[str | None]) -> Level:
    domains = tuple(dict.fromkeys(value for value in values if value is not None))
    at = {domain: n for n, domain in enumerate(domains)}
    return Level(name, domains, np.array([-1 if value is None else at[value] for value in values], dtype=np.int64))
