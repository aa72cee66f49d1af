"""What `--preview` prints, and its exit code."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.terminal.preview_lines import format_cost, list_lines
from gpupool.wire.jobs import SeatOut
from gpupool.wire.views.previews import PreviewOut

SHARE = "0.30 GPU (30 % compute) + 8192 MiB"


def answer(outcome: Any, **more: Any) -> dict[str, Any]:
    return PreviewOut(outcome=outcome, share=SHARE, manifest="", **more).model_dump()


def seat(number: int) -> SeatOut:
    return SeatOut(
        device=f"node-1:{number}", uuid=f"GPU-{number}", model="H200", gpu_milli=1, memory_bytes=1
    )


def test_what_fits_names_its_cards() -> None:
    found = answer(
        "fits",
        reason="least fragments",
        count=12,
        starts_now=9,
        on=[seat(n) for n in range(9)],
        on_total=9,
        mechanism="fence",
        mechanism_why="a share of a card",
    )
    assert list(list_lines(found)) == [
        f"fits: 12 × [{SHARE}]",
        f"on {', '.join(f'node-1:{n}' for n in range(8))} and 1 more: least fragments",
        "9 of 12 jobs would start at once",
        "mechanism: fence: a share of a card",
    ]


def test_what_waits_says_why_how_long_and_what_would_help() -> None:
    found = answer(
        "waits",
        reason="needs 1 card; 0 of 2 have room",
        start="by 2026-11-21T13:00:00Z",
        ahead=1,
        nearest="0.10 GPU (10 % compute) + 1024 MiB",
        hints=["gpupool submit --gpu 0.1"],
        cost={"currency": "CNY", "per_hour_micro": 1_500_000, "total_micro": 3_000_000},
    )
    assert list(list_lines(found)) == [
        f"waits: {SHARE}",
        "needs 1 card; 0 of 2 have room",
        "starts by 2026-11-21T13:00:00Z",
        "behind 1 other in the queue",
        "would fit now: 0.10 GPU (10 % compute) + 1024 MiB",
        "- gpupool submit --gpu 0.1",
        "mechanism: none now",
        "cost: 1.50 CNY an hour, 3.00 CNY until its time limit",
    ]


def test_what_never_fits_has_its_code_and_no_mechanism() -> None:
    found = answer("never", code="GP-2001", reason="larger than any card\nthe largest has 140 GiB")
    assert list(list_lines(found)) == [
        f"never: {SHARE} (GP-2001)",
        "larger than any card",
        "the largest has 140 GiB",
    ]


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (
            {"currency": None, "per_hour_micro": 0, "total_micro": None},
            "cost: 0.00 an hour",
        ),
        (
            {"currency": "EUR", "per_hour_micro": 2_345_678, "total_micro": None},
            "cost: 2.35 EUR an hour",
        ),
    ],
)
def test_a_cost_without_a_limit_is_by_the_hour(cost: dict[str, Any], text: str) -> None:
    assert format_cost(cost) == text
