"""vcuda: the two pods of tkestack/gpu-manager's README."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dialects.pods import ask_of, pod, said

CORE, MEMORY, LIMIT = (
    "tencent.com/vcuda-core",
    "tencent.com/vcuda-memory",
    "tencent.com/vcuda-core-limit",
)


def test_the_readmes_part_of_a_card_has_pieces_of_256_mebibytes() -> None:
    assert (
        said(pod({CORE: 50, MEMORY: 30}, {LIMIT: 50}))
        == "0.50 GPU (50 % compute) + 7680 MiB, fixed"
    )


def test_the_readmes_two_cards_are_whole() -> None:
    ask = ask_of(pod({CORE: 200, MEMORY: 60}))
    assert str(ask) == "2 × [1.00 GPU (100 % compute) + its part of the memory]"
    assert ask.notes == (
        "tencent.com/vcuda-memory: 60 is left out: a whole card has all its memory",
    )


def test_a_limit_above_the_request_is_a_cap_and_none_is_a_burst() -> None:
    capped = ask_of(pod({CORE: 30, MEMORY: 30}, {LIMIT: "50"}))
    assert (capped.gpu_milli, capped.cap_milli, capped.sharing) == (300, 500, "burst")
    free = ask_of(pod({CORE: 30, MEMORY: 30}))
    assert (free.gpu_milli, free.cap_milli, free.sharing) == (300, None, "burst")


@pytest.mark.parametrize(
    ("limits", "annotations", "refusal"),
    [
        (
            {CORE: 150, MEMORY: 30},
            {},
            "GP-1041: tencent.com/vcuda-core: 150: above 100 only whole cards can be had",
        ),
        ({CORE: 30}, {}, "GP-1041: tencent.com/vcuda-core: 30 without tencent.com/vcuda-memory"),
        ({MEMORY: 30}, {}, "GP-1041: tencent.com/vcuda-memory: 30 without tencent.com/vcuda-core"),
        (
            {CORE: 50, MEMORY: 30},
            {LIMIT: "20"},
            "GP-1041: tencent.com/vcuda-core-limit: 20 is below the 50 %",
        ),
    ],
)
def test_what_it_does_not_have_is_refused(
    limits: dict[str, Any], annotations: dict[str, Any], refusal: str
) -> None:
    assert said(pod(limits, annotations)).startswith(refusal)
