"""Sentences for a claim that waits for a person."""

from __future__ import annotations

import pytest

from gpupool.model.quota import GPU
from gpupool.scheduling.reasons.reach_messages import (
    describe_kept_by_others,
    format_resubmission,
)


@pytest.mark.parametrize(
    ("kept", "preemptible", "rest"),
    [
        (0, False, "the pool may hold 8.00 GPU at most; this claim needs 6.00"),
        (
            3000,
            False,
            (
                "3.00 of the pool's 8.00 GPU are guaranteed to others; "
                "this claim, not preemptible, needs 6.00"
            ),
        ),
        (
            3000,
            True,
            (
                "3.00 of the pool's 8.00 GPU are kept for others, which do not lend it; "
                "this claim needs 6.00"
            ),
        ),
    ],
)
def test_what_is_kept_is_said_with_its_numbers(kept: int, *, preemptible: bool, rest: str) -> None:
    said = describe_kept_by_others("the pool", GPU, 8000, kept, 6000, preemptible=preemptible)
    assert said == f"cannot start while {rest}"


def test_every_option_is_suggested_with_its_meaning() -> None:
    said = format_resubmission(("--preemptible", "--max-time"))
    assert said.startswith("submit it with --preemptible --max-time 1h: ")
    assert said.endswith(
        "then it may use what others are guaranteed, until they need it"
        " and then it may run until what is reserved begins"
    )
