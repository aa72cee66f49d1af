"""Reads cards and jobs as the API has them, and answers with a plan or with the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadOption, UnknownProfile, WrongState
from gpupool.model.partition import write_profiles
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.rebalancing.partition_layout import PartitionedCard
from gpupool.simulation.studies.mode_candidates import CandidateList, ModeCandidate
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


def candidate(name: str, model: str = "H200", **more: Any) -> ModeCandidate:
    return ModeCandidate(
        PartitionedCard(name, list_mig_profiles(model)), f"GPU-{name}", needs="idle-card", **more
    )


def test_cards_are_switched_only_for_what_finds_no_slot() -> None:
    cards = read_cards([device(0)], [])
    others = CandidateList((candidate("p:0"), candidate("p:1"), candidate("p:2")))
    assert plan_partitions(cards, {"1g.18gb": 7}, 4, others)["switches"] == []
    found = plan_partitions(cards, {"1g.18gb": 15}, 4, others)
    assert [one["card"] for one in found["switches"]] == ["p:0", "p:1"]
    assert [card["mix_after"] for card in found["cards"]] == [
        "7 x 1g.18gb",
        "7 x 1g.18gb",
        "1g.18gb",
    ]
    assert found["missing"] == {}
    assert found["switches"][0] == {
        "card": "p:0",
        "uuid": "GPU-p:0",
        "mode": "mig",
        "expected": "plain",
        "needs": "idle-card",
        "seconds": None,
        "waits_for": [],
        "forecast": True,
        "under_way": False,
    }


def test_only_cards_with_the_missing_profile_are_switched() -> None:
    others = CandidateList((candidate("a:0", "A30"), candidate("p:0"), candidate("p:1")))
    found = plan_partitions((), {"3g": 3}, 3, others)
    assert [one["card"] for one in found["switches"]] == ["p:0", "p:1"]
    assert found["demand"] == {"3g.71gb": 3}


def test_what_no_card_holds_is_said_with_the_cards_left_out() -> None:
    others = CandidateList((candidate("p:0"),), {"p:1": "its health is failed"})
    found = plan_partitions((), {"7g": 2}, 2, others)
    assert found["missing"] == {"7g.141gb": 1}
    assert found["rejected"] == [{"card": "p:1", "why": "its health is failed"}]
    assert plan_partitions((), {"7g": 1}, 2, others)["rejected"] == []


def test_a_name_means_a_profile_of_the_cards_in_the_mode_first() -> None:
    cards = read_cards([device(0)], [])
    others = CandidateList((candidate("a:0", "A100-40G"),))
    assert plan_partitions(cards, {"3g": 1}, 2, others)["demand"] == {"3g.71gb": 1}
    assert plan_partitions(cards, {"3g.20gb": 1}, 2, others)["demand"] == {"3g.20gb": 1}
    with pytest.raises(UnknownProfile, match="none that can be switched to it"):
        plan_partitions(cards, {"9g": 1}, 2, others)


def test_a_pool_that_cannot_switch_any_card_says_why() -> None:
    with pytest.raises(WrongState, match="none can be switched to it; p:1: its health is failed"):
        plan_partitions((), {"1g": 1}, 2, CandidateList((), {"p:1": "its health is failed"}))


def test_a_large_demand_is_planned_on_the_fewest_cards() -> None:
    others = CandidateList(tuple(candidate(f"p:{number}") for number in range(200)))
    found = plan_partitions((), {"1g.18gb": 700}, 200, others)
    assert len(found["switches"]) == 100
    assert found["missing"] == {}
