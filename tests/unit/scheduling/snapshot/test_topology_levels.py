"""Which labels of nodes are levels above the node."""

from __future__ import annotations

import pytest

from gpupool.scheduling.snapshot.topology_levels import parse_level_name


@pytest.mark.parametrize(
    ("label", "level"), [("rack", "rack"), ("gpupool.io/level-row", "row"), ("colour", "")]
)
def test_which_labels_are_levels(label: str, level: str) -> None:
    assert parse_level_name(label) == level
