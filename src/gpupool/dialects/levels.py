"""Names the topology levels that other systems give as node labels."""

from __future__ import annotations

import re

from gpupool.base.errors import ForeignValue
from gpupool.dialects import amounts
from gpupool.dialects.pod import PlacedWord

#: Labels whose last part is not our word for the level.
_KNOWN = {
    "kubernetes.io/hostname": "node",
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "nvidia.com/gpu.clique": "nvlink",
}


def name_level(word: PlacedWord | None) -> str | None:
    """Name the level that a node label stands for; None of None. Raises ForeignValue.

    >>> name_level(PlacedWord("x", "cloud.provider.com/topology-rack", ()))
    'rack'
    >>> name_level(PlacedWord("x", "kubernetes.io/hostname", ()))
    'node'
    """
    if word is None:
        return None
    label = amounts.read_name(word)
    # Providers write `topology-rack` or `cloud.provider.com/topology-rack`; the level is `rack`.
    last = re.sub(r"^(topology|level)-", "", label.rstrip("/").rpartition("/")[2].lower())
    if not last:
        raise ForeignValue(
            f"{word}: this is no node label",
            hint="write it like topology.kubernetes.io/zone",
            path=word.path,
        )
    return _KNOWN.get(label, re.sub(r"[^a-z0-9.-]", "-", last))
