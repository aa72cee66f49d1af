"""TensorFusion: its amounts are TFLOPS, which no part of a card is."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NotExpressible
from gpupool.dialects.contract import NOTHING
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes.tensor_fusion import read_words
from gpupool.dialects.pod import read_pod
from tests.unit.dialects.pods import pod


@pytest.mark.parametrize(
    "key",
    [
        "tflops-request",
        "tflops-limit",
        "vram-request",
        "vram-limit",
        "compute-percent-request",
        "gpu-count",
    ],
)
def test_amounts_of_tensor_fusion_are_refused_with_their_place(key: str) -> None:
    given = pod({}, {f"tensor-fusion.ai/{key}": "10"})
    with pytest.raises(NotExpressible) as caught:
        read_words(read_pod(given), NodeFacts())
    assert caught.value.message.startswith(f"tensor-fusion.ai/{key}: 10: a share is a part")
    assert caught.value.details["path"] == ("metadata", "annotations", f"tensor-fusion.ai/{key}")


def test_other_words_of_tensor_fusion_ask_for_nothing() -> None:
    given = pod({}, {"tensor-fusion.ai/gpupool": "a", "tensor-fusion.ai/qos": "high"})
    assert read_words(read_pod(given), NodeFacts()) is NOTHING
