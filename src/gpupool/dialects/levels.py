"""Levels of nearness as others name them: node labels, whose last part mostly is our word for the level."""

from __future__ import annotations

import re

from gpupool.base.errors import ForeignValue
from gpupool.dialects import amounts
from gpupool.dialects.pod import Word

_KNOWN = {
    "kubernetes.io/hostname": "node",
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "nvidia.com/gpu.clique": "nvlink",
}


def of(word: Word | None) -> str | None:
    """The level of a node label; None of None.

    >>> of(Word("x", "cloud.provider.com/topology-rack", ())), of(Word("x", "kubernetes.io/hostname", ()))
    ('rack', 'node')
    """
    if word is None:
        return None
    label = amounts.name(word)
    last = re.sub(r"^(topology|level)-", "", label.rstrip("/").rpartition("/")[2].lower())
    if not last:
        raise ForeignValue(
            f"{word}: this is no node label", hint="write it like topology.kubernetes.io/zone", path=word.path
        )
    return _KNOWN.get(label, re.sub(r"[^a-z0-9.-]", "-", last))
