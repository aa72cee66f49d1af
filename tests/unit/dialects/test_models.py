"""Card models and levels as other systems name them."""

from __future__ import annotations

import pytest

from gpupool.dialects import models


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
    assert models.list_models([word]) == names
