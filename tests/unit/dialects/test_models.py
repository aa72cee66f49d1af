"""Card models and levels as other systems name them."""

from __future__ import annotations

import pytest

from gpupool.dialects import levels, models
from gpupool.dialects.pod import Word


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("A100", ("A100-40G", "A100-80G")),
        ("A10", ("A10",)),
        ("NVIDIA-A100-SXM4-80GB", ("A100-80G",)),
        ("nvidia-tesla-t4", ("T4",)),
        ("h200", ("H200",)),
        ("1080", ("1080",)),
    ],
)
def test_a_word_means_every_model_that_has_it_whole(word: str, names: tuple[str, ...]) -> None:
    assert models.meant([word]) == names


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
    assert levels.of(Word("k", label, ())) == level
