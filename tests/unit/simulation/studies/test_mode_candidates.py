"""Reads which cards could be switched to MIG mode, and why others cannot."""

from __future__ import annotations

from typing import Any

from gpupool.model.partition import write_profiles
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.simulation.studies.mode_candidates import (
    format_endless,
    list_offered_profiles,
    read_candidates,
)

OFFER = {"mode": "mig", "needs": "idle-card", "seconds": 2, "blocked_by": "", "steps": []}


def device(index: int, node: str = "n", **more: Any) -> dict[str, Any]:
    return {
        "name": f"{node}:{index}",
        "uuid": f"GPU-{node}-{index}",
        "node": node,
        "model": "H200",
        "state": "adopted",
        "mode": "plain",
        "partitions": None,
        "switch": None,
        "facts": {"modes": [OFFER]},
        **more,
    }


def job(name: str, uuid: str, max_seconds: int | None = 60) -> dict[str, Any]:
    return {"name": name, "seats": [{"uuid": uuid}, {"uuid": uuid}], "max_seconds": max_seconds}


def test_cards_on_their_way_come_first_then_idle_ones_near_others() -> None:
    devices = [
        device(0, "a"),
        device(1, "a"),
        device(0, "b", partitions=[]),
        device(1, "b"),
        device(0, "c", switch={"wanted": "mig"}),
    ]
    found = read_candidates(devices, [job("train", "GPU-a-0")])
    assert [one.card.name for one in found.candidates] == ["c:0", "b:1", "a:1", "a:0"]
    assert found.candidates[0].is_under_way
    assert found.candidates[3].waits_for == ("train",)
    assert found.rejected == {}


def test_a_card_with_a_job_without_time_limit_is_chosen_only_when_asked_for() -> None:
    jobs = [job("serve", "GPU-n-0", None), job("train", "GPU-n-0")]
    found = read_candidates([device(0)], jobs)
    assert found.candidates == ()
    assert found.rejected == {
        "n:0": "1 job without a time limit runs on it: serve (--with-endless waits for it)"
    }
    (one,) = read_candidates([device(0)], jobs, with_endless=True).candidates
    assert (one.waits_for, one.endless) == (("serve", "train"), ("serve",))


def test_what_is_in_the_way_of_a_card_is_said() -> None:
    blocked = {**OFFER, "blocked_by": "process 812 has /dev/nvidia0 open"}
    devices = [
        device(0, facts={"modes": [blocked]}),
        device(1, mode="passthrough"),
        device(2, switch={"wanted": "sriov"}),
        device(3, state="observed"),
        device(4, health="failed"),
        device(5, facts={"modes": [{"mode": "passthrough"}]}),
        device(6, facts={}),
        device(7, cluster=True),
    ]
    found = read_candidates(devices, [])
    assert found.candidates == ()
    assert found.rejected == {
        "n:0": "process 812 has /dev/nvidia0 open",
        "n:1": "it is in mode passthrough",
        "n:2": "it is being switched to mode sriov",
        "n:3": "it is not handed out (observed); gpupool adopt n:3",
        "n:4": "its health is failed",
    }


def test_profiles_are_the_drivers_where_it_reports_them_before_the_switch() -> None:
    own = list_mig_profiles("A30")
    published = {**OFFER, "profiles": write_profiles(own)}
    (one,) = read_candidates([device(0, facts={"modes": [published]})], []).candidates
    assert (one.card.profiles, one.is_forecast) == (own, False)
    (one,) = read_candidates([device(0)], []).candidates
    assert (one.card.profiles, one.is_forecast) == (list_mig_profiles("H200"), True)
    assert list_offered_profiles(device(0, model="X"), None) == ()


def test_many_endless_jobs_are_counted() -> None:
    text = format_endless([f"job-{number}" for number in range(7)])
    assert text.startswith("7 jobs without a time limit run on it: job-0, ")
    assert text.endswith("job-4 and 2 more")
