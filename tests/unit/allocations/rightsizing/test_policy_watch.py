"""Advice by policy: for new and running jobs, taken back where it is too little. Never twice."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import NoRoomNow
from gpupool.base.units import GIB, MIB
from gpupool.wire.jobs import JobOut
from gpupool.wire.rightsizing.policies import AdvicePolicyIn
from tests.support.idle_house import IdleHouse
from tests.support.measured_runs import measure, run_family
from tests.support.resizing import resize, running

#: What five runs with 0.1 of a card and 1 GiB are advised.
ADVISED = (150, 1536 * MIB)
ASKED = (500, 16 * GIB)
KINDS = (
    "job.advised",
    "job.advice-proposed",
    "job.advice-applied",
    "job.advice-returned",
    "job.advice-return-waits",
    "advice.family-paused",
)


def set_policy(house: IdleHouse, **body: Any) -> None:
    usual = {"mode": "apply", "confidence": "low", "most_cut_percent": 95}
    made = AdvicePolicyIn.model_validate({**usual, **body})
    house.allocations.rightsizing.policies.put(house.admin, made)


def look(house: IdleHouse) -> None:
    house.metering.write_due_samples()
    house.allocations.rightsizing.watch.look()


def read_size(job: JobOut) -> tuple[int, int | None]:
    return job.gpu_milli, job.memory_bytes


def list_kinds(house: IdleHouse) -> list[str]:
    return [kind for kind, _ in house.list_events(*KINDS)]


def test_a_new_job_of_the_family_gets_the_advised_share(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    set_policy(house)
    look(house)

    job = running(house, "train-9", *(500, 16))
    exact = running(house, "train-10", *(500, 16), exact=True)
    other = running(house, "eval-1", *(100, 16))

    assert read_size(job) == ADVISED
    assert job.advice is not None
    assert job.advice.text == (
        "asked 0.50 + 16384 MiB, runs with 0.15 + 1536 MiB by the advice policy; --exact refuses it"
    )
    assert read_size(exact) == ASKED
    assert exact.advice is not None
    assert (exact.advice.state, other.advice) == ("exact", None)
    assert list_kinds(house) == ["job.advised"]
    set_policy(house, mode="off")
    assert read_size(running(house, "train-11", *(300, 16))) == (300, 16 * GIB)


def test_a_proposal_changes_nothing_and_is_shown(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    set_policy(house, mode="propose", target="both")
    look(house)

    job = running(house, "train-9", *(500, 16))
    look(house)

    assert read_size(house.job("train-9")) == ASKED
    assert job.advice is not None
    assert (job.advice.state, job.advice.gpu_milli) == ("proposed", 150)
    assert list_kinds(house) == ["job.advice-proposed"]


def test_running_jobs_are_resized_once_and_their_users_have_the_last_word(
    house: IdleHouse,
) -> None:
    run_family(house, "train", [0.1] * 5)
    running(house, "train-8", *(500, 16))
    running(house, "train-9", *(400, 16))
    resize(house, "train-9", 300)
    set_policy(house, target="new")
    look(house)
    assert read_size(house.job("train-8")) == ASKED

    set_policy(house, target="running")
    look(house)
    look(house)

    assert read_size(house.job("train-8")) == ADVISED
    assert read_size(house.job("train-9")) == (300, 16 * GIB)
    resize(house, "train-8", 250)
    look(house)
    assert house.job("train-8").gpu_milli == 250
    assert list_kinds(house) == ["job.advice-applied"]


def test_a_share_that_is_too_small_is_given_back_and_the_family_left_alone(
    house: IdleHouse,
) -> None:
    run_family(house, "train", [0.1] * 5)
    set_policy(house)
    look(house)
    running(house, "train-9", *(500, 16))
    measure(house, "train-9", 0.15, samples=12)

    look(house)
    look(house)

    job = house.job("train-9")
    assert read_size(job) == ASKED
    assert job.advice is not None
    assert job.advice.state == "returned"
    assert list_kinds(house) == ["job.advised", "job.advice-returned", "advice.family-paused"]
    assert read_size(running(house, "train-10", *(400, 16))) == (400, 16 * GIB)
    house.finish("train-9")
    house.finish("train-10")
    house.time.forward(8 * 86400)
    look(house)
    # With the run at its limit the family is advised half more than it had.
    assert running(house, "train-11", *(500, 16)).gpu_milli == 250


def test_a_share_without_room_waits_and_comes_back_later(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    set_policy(house)
    look(house)
    running(house, "train-9", *(500, 16))
    card = house.job("train-9").device
    running(house, "block-1", *(800, 16))
    running(house, "block-2", *(800, 16))
    (beside,) = [name for name in ("block-1", "block-2") if house.job(name).device == card]
    measure(house, "train-9", 0.15, samples=12)
    look(house)
    look(house)

    job = house.job("train-9")
    assert read_size(job) == ADVISED
    assert job.advice is not None
    assert job.advice.state == "waits"
    with pytest.raises(NoRoomNow):
        resize(house, "train-9", 500)

    house.finish(beside)
    look(house)

    assert read_size(house.job("train-9")) == ASKED
    returns = [kind for kind in list_kinds(house) if "return" in kind]
    assert returns == ["job.advice-return-waits", "job.advice-returned"]


def test_a_job_that_ended_with_too_little_pauses_its_family(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    set_policy(house)
    look(house)
    running(house, "train-9", *(500, 16))
    measure(house, "train-9", 0.15)
    house.finish("train-9")

    look(house)
    look(house)

    assert list_kinds(house) == ["job.advised", "advice.family-paused"]
    assert read_size(running(house, "train-10", *(400, 16))) == (400, 16 * GIB)


def test_a_request_that_only_fits_as_it_was_asked_is_left(house: IdleHouse) -> None:
    run_family(house, "train", [0.1] * 5)
    set_policy(house)
    look(house)

    house.submit(
        500, 16, name="train-9", gang={"name": "all", "parts": [{"name": "w", "count": 2}]}
    )
    house.submit(500, 16, name="train-10", idle_seconds=600, host_bytes=GIB)

    assert read_size(house.job("train-9.0")) == ASKED
    assert read_size(house.job("train-10")) == ASKED
