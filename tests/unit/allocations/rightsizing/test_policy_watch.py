"""Advice by policy: for new and running jobs, taken back where it is too little. Never twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import IS_LIVE, jobs
from gpupool.base.errors import NoRoomNow
from gpupool.base.units import GIB
from tests.support.advice_policies import (
    ADVISED,
    ASKED,
    list_kinds,
    look,
    read_size,
    set_policy,
)
from tests.support.idle_house import IdleHouse
from tests.support.measured_runs import measure, run_family
from tests.support.resizing import resize, running

NAMES = itertools.cycle(("train", "learn", "tune", "fit", "sweep", "draw", "pack"))


@dataclass
class Family:
    """A family of five measured runs, in a pool that the tests of this file share."""

    house: IdleHouse
    name: str
    first_event: int

    def list_kinds(self) -> list[str]:
        """List the kinds of events about policies since the test began."""
        return list_kinds(self.house)[self.first_event :]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdleHouse]:
    made = IdleHouse(tmp_path_factory.mktemp("watch"))
    yield made
    made.close()


@pytest.fixture
def family(shared: IdleHouse) -> Iterator[Family]:
    name = next(NAMES)
    run_family(shared, name, [0.1] * 5)
    yield Family(shared, name, len(list_kinds(shared)))
    with shared.store.read() as connection:
        live = connection.execute(sa.select(jobs.c.public_id, jobs.c.state).where(IS_LIVE)).all()
    for job, state in live:
        if state == "pending":
            shared.allocations.stops.stop_job(job, shared.admin, None)
        else:
            shared.finish(job)
    policies = shared.allocations.rightsizing.policies
    for one in policies.list_all(shared.admin):
        policies.delete(shared.admin, one.id)


def test_a_new_job_gets_the_advised_share_and_a_proposal_is_shown(family: Family) -> None:
    house = family.house
    set_policy(house, families=family.name)
    look(house)

    job = running(house, f"{family.name}-9", *(500, 16))
    exact = running(house, f"{family.name}-10", *(500, 16), exact=True)
    other = running(house, "eval-1", *(100, 16))

    assert read_size(job) == ADVISED
    assert job.advice is not None
    assert job.advice.text == (
        "asked 0.50 + 16384 MiB, runs with 0.15 + 1536 MiB by the advice policy; --exact refuses it"
    )
    assert read_size(exact) == ASKED
    assert exact.advice is not None
    assert (exact.advice.state, other.advice) == ("exact", None)
    assert family.list_kinds() == ["job.advised"]
    # Not touched: gangs, and jobs for which main memory is reserved.
    parts = [{"name": "w", "count": 2}]
    house.submit(200, 1, name=f"{family.name}-12", gang={"name": "all", "parts": parts})
    assert house.job(f"{family.name}-12.0").gpu_milli == 200
    house.submit(200, 1, name=f"{family.name}-13", idle_seconds=600, host_bytes=GIB)
    assert house.job(f"{family.name}-13").gpu_milli == 200

    set_policy(house, families=family.name, mode="propose", target="both")
    look(house)
    proposed = running(house, f"{family.name}-14", *(300, 2))
    look(house)

    assert read_size(house.job(f"{family.name}-14")) == (300, 2 * GIB)
    assert proposed.advice is not None
    assert (proposed.advice.state, proposed.advice.gpu_milli) == ("proposed", 150)
    set_policy(house, families=family.name, mode="off")
    assert running(house, f"{family.name}-11", *(100, 2)).advice is None
    assert family.list_kinds() == ["job.advised", "job.advice-proposed"]


def test_running_jobs_are_resized_once_and_their_users_have_the_last_word(family: Family) -> None:
    house = family.house
    running(house, f"{family.name}-8", *(500, 16))
    running(house, f"{family.name}-9", *(400, 16))
    resize(house, f"{family.name}-9", 300)
    set_policy(house, families=family.name, target="new")
    look(house)
    assert read_size(house.job(f"{family.name}-8")) == ASKED

    set_policy(house, families=family.name, target="running")
    look(house)
    look(house)

    assert read_size(house.job(f"{family.name}-8")) == ADVISED
    assert read_size(house.job(f"{family.name}-9")) == (300, 16 * GIB)
    resize(house, f"{family.name}-8", 250)
    look(house)
    assert house.job(f"{family.name}-8").gpu_milli == 250
    assert family.list_kinds() == ["job.advice-applied"]


def test_a_running_job_without_a_fence_keeps_what_it_asked_for(family: Family) -> None:
    """It would go on with the memory and the compute that are given to others."""
    house = family.house
    running(house, f"{family.name}-8", *(500, 16), fence=False)
    running(house, f"{family.name}-9", *(500, 16), fence=False, exact=True)
    house.submit(300, 8, name=f"{family.name}-many", fence=False, array=1)
    item = next(one for one in house.work() if one.job_name == f"{family.name}-many.0")
    house.report(item, "running", started_ns=5)
    for mode in ("propose", "apply"):
        set_policy(house, families=f"{family.name}*", mode=mode, target="running")
        look(house)
    assert read_size(house.job(f"{family.name}-8")) == ASKED
    assert read_size(house.job(f"{family.name}-9")) == ASKED
    assert house.job(f"{family.name}-many.0").gpu_milli == 300
    assert family.list_kinds() == []


def test_a_share_that_is_too_small_is_given_back_and_the_family_left_alone(family: Family) -> None:
    house = family.house
    set_policy(house, families=family.name)
    look(house)
    running(house, f"{family.name}-9", *(500, 16))
    measure(house, f"{family.name}-9", 0.15, samples=6)

    look(house)
    look(house)

    job = house.job(f"{family.name}-9")
    assert read_size(job) == ASKED
    assert job.advice is not None
    assert job.advice.state == "returned"
    assert family.list_kinds() == ["job.advised", "job.advice-returned", "advice.family-paused"]
    assert read_size(running(house, f"{family.name}-10", *(400, 16))) == (400, 16 * GIB)
    house.finish(f"{family.name}-9")
    house.finish(f"{family.name}-10")
    house.time.forward(8 * 86400)
    look(house)
    # With the run at its limit the family is advised half more than it had.
    assert running(house, f"{family.name}-11", *(500, 16)).gpu_milli == 250


def test_a_share_without_room_waits_and_comes_back_later(family: Family) -> None:
    house = family.house
    set_policy(house, families=family.name)
    look(house)
    running(house, f"{family.name}-9", *(500, 16))
    card = house.job(f"{family.name}-9").device
    running(house, "block-1", *(800, 16))
    running(house, "block-2", *(800, 16))
    (beside,) = [name for name in ("block-1", "block-2") if house.job(name).device == card]
    measure(house, f"{family.name}-9", 0.15, samples=6)
    look(house)
    look(house)

    job = house.job(f"{family.name}-9")
    assert read_size(job) == ADVISED
    assert job.advice is not None
    assert job.advice.state == "waits"
    with pytest.raises(NoRoomNow):
        resize(house, f"{family.name}-9", 500)

    house.finish(beside)
    look(house)

    assert read_size(house.job(f"{family.name}-9")) == ASKED
    returns = [kind for kind in family.list_kinds() if "return" in kind]
    assert returns == ["job.advice-return-waits", "job.advice-returned"]


def test_a_job_that_ended_with_too_little_pauses_its_family(family: Family) -> None:
    house = family.house
    set_policy(house, families=family.name)
    look(house)
    running(house, f"{family.name}-9", *(500, 16))
    measure(house, f"{family.name}-9", 0.15)
    house.finish(f"{family.name}-9")

    look(house)
    look(house)

    assert family.list_kinds() == ["job.advised", "advice.family-paused"]
    assert read_size(running(house, f"{family.name}-10", *(400, 16))) == (400, 16 * GIB)


def test_a_running_job_is_proposed_its_advice_once_for_each_step(family: Family) -> None:
    house = family.house
    name = f"{family.name}-8"
    running(house, name, *(500, 16))
    set_policy(house, families=family.name, mode="propose", target="running")
    look(house)
    look(house)

    job = house.job(name)
    assert read_size(job) == ASKED
    assert job.advice is not None
    assert (job.advice.state, job.advice.gpu_milli) == ("proposed", 150)
    assert family.list_kinds() == ["job.advice-proposed"]
    _, data = house.list_events("job.advice-proposed")[-1]
    assert (data["name"], data["is_running"], data["gpu_milli"]) == (name, True, 150)
    (advice,) = house.allocations.rightsizing.list_advice(house.admin, 0, family=family.name)
    assert [(one.name, one.proposed_milli) for one in advice.live] == [(name, 150)]

    # One step of 0.05 is no news, also after the proposal had lapsed.
    set_policy(house, families=family.name, mode="propose", target="running", least_milli=200)
    look(house)
    assert family.list_kinds() == ["job.advice-proposed"]
    set_policy(house, families=family.name, mode="off")
    look(house)
    assert house.job(name).advice is None
    set_policy(house, families=family.name, mode="propose", target="running")
    look(house)
    assert family.list_kinds() == ["job.advice-proposed"]
    assert house.job(name).advice is not None
    set_policy(house, families=family.name, mode="propose", target="running", least_milli=300)
    look(house)
    assert family.list_kinds() == ["job.advice-proposed"] * 2

    # With `apply` it gets what was proposed; its user's size has the last word.
    set_policy(house, families=family.name, target="running")
    look(house)
    assert read_size(house.job(name)) == ADVISED
    assert family.list_kinds()[2:] == ["job.advice-applied"]
    resized = f"{family.name}-9"
    running(house, resized, *(400, 16))
    resize(house, resized, 300)
    set_policy(house, families=family.name, mode="propose", target="running")
    look(house)
    assert house.job(resized).advice is None
    assert len(family.list_kinds()) == 3
