"""Levels of nearness as other systems name them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import ForeignValue
from gpupool.dialects import levels
from gpupool.dialects.pod import PlacedWord


@pytest.mark.parametrize(
    ("label", "level"),
    [
        ("topology.kubernetes.io/zone", "zone"),
        ("kubernetes.io/hostname", "node"),
        ("nvidia.com/gpu.clique", "nvlink"),
        ("cloud.provider.com/topology-block", "block"),
        ("cloud.google.com/gce-topology-host", "gce-topology-host"),
    ],
)
def test_a_node_label_is_a_level(label: str, level: str) -> None:
    assert levels.name_level(PlacedWord("k", label, ())) == level


@pytest.mark.parametrize("label", ["", "/", "a,b", "topology-"])
def test_what_is_no_label_is_refused(label: str) -> None:
    with pytest.raises(ForeignValue):
        levels.name_level(PlacedWord("k", label, ("place",)))
