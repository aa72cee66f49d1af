"""Reads cards and jobs as the API has them, and answers with a plan or with the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadOption, UnknownProfile, WrongState
from gpupool.model.partition import write_profiles
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.simulation.studies.partition_plan import (
    parse_demand,
    plan_partitions,
    read_cards,
    read_pending,
)

FACTS = {"profiles": write_profiles(list_mig_profiles("H200"))}


def device(index: int, *pieces: tuple[str, int, int]) -> dict[str, Any]:
    found = [{"profile": name, "start": start, "size": size} for name, start, size in pieces]
    return {"name": f"n:{index}", "uuid": f"GPU-{index}", "partitions": found, "facts": FACTS}


def job(name: str, index: int, start: int, **more: Any) -> dict[str, Any]:
    seat = {"uuid": f"GPU-{index}", "start": start}
    return {"name": name, "seats": [seat], "preemptible": True, "gang": None, **more}


def test_a_demand_is_read_as_numbers_and_names() -> None:
    assert parse_demand("3x1g.18gb, 2G.35GB,1g.18gb") == {"1g.18gb": 4, "2g.35gb": 1}
    for wrong in ("", "0x1g", "3x", "99999x1g"):
        with pytest.raises(BadOption, match="cannot read the demand"):
            parse_demand(wrong)


def test_waiting_jobs_are_a_demand() -> None:
    waiting = [
        {"profile": "1g.18gb", "count": 2},
        {"profile": None, "count": 1},
        {"profile": "1g.18gb", "count": 1},
    ]
    assert read_pending(waiting) == {"1g.18gb": 3}


def test_only_jobs_that_may_be_evicted_alone_are_movable() -> None:
    devices = [
        device(0, ("1g.18gb", 0, 1), ("1g.18gb", 1, 1), ("1g.18gb", 2, 1), ("1g.18gb", 3, 1))
    ]
    jobs = [job("a", 0, 0), job("b", 0, 1, preemptible=False), job("c", 0, 2, gang="g-1")]
    (card,) = read_cards([*devices, {**device(1), "partitions": None}], jobs)
    assert [(piece.job, piece.is_movable) for piece in card.running] == [
        ("a", True),
        ("b", False),
        ("c", False),
        ("", False),
    ]


def test_a_plan_names_layouts_and_moves() -> None:
    cards = read_cards([device(0, ("1g.18gb", 0, 1))], [job("train", 0, 0)])
    found = plan_partitions(cards, {"4g": 1}, 1)
    assert found["demand"] == {"4g.71gb": 1}
    assert found["moves"] == [
        {
            "job": "train",
            "from": {"card": "n:0", "start": 0},
            "to": {"card": "n:0", "start": 6},
            "profile": "1g.18gb",
        }
    ]
    (card,) = found["cards"]
    assert (card["mix_before"], card["mix_after"]) == ("1g.18gb", "4g.71gb + 1g.18gb")
    assert found["missing"] == {}


def test_what_cannot_be_planned_is_refused_with_what_can() -> None:
    with pytest.raises(WrongState, match="of 3 cards none is in partition mode"):
        plan_partitions((), {"1g": 1}, 3)
    with pytest.raises(UnknownProfile, match="no card in partition mode") as caught:
        plan_partitions(read_cards([device(0)], []), {"9g": 1}, 1)
    assert "1g.18gb, 1g.18gb+me, 1g.35gb" in caught.value.hint
