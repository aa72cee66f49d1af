"""Bitfusion: vmware/bitfusion-with-kubernetes-integration README."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dialects.pods import pod, said

COUNT, PERCENT, MEMORY = (f"bitfusion.io/gpu-{name}" for name in ("amount", "percent", "memory"))


@pytest.mark.parametrize(
    ("limits", "meaning"),
    [
        ({COUNT: 1, PERCENT: 100}, "1.00 GPU (100 % compute) + its part of the memory, fixed"),
        ({COUNT: 2, PERCENT: 50}, "2 × [1.00 GPU (best effort) + 50 % of the memory], best-effort"),
        ({COUNT: 1, MEMORY: "8Gi"}, "1.00 GPU (best effort) + 8192 MiB, best-effort"),
        ({COUNT: 1, MEMORY: str(8 << 30)}, "1.00 GPU (best effort) + 8192 MiB, best-effort"),
        (
            {COUNT: 1, PERCENT: 50, MEMORY: "8Gi"},
            "GP-1042: bitfusion.io/gpu-percent: 50 and bitfusion.io/gpu-memory: 8Gi",
        ),
    ],
)
def test_it_has_memory_and_no_compute(limits: dict[str, Any], meaning: str) -> None:
    assert said(pod(limits)).startswith(meaning)
