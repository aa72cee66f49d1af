"""Leavers' jobs are stopped, kept or handed over as was chosen, whenever the server dies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.handover.leaver_rows import list_leavers
from gpupool.allocations.handover.policies import check_choice
from gpupool.allocations.handover.stopping import LeaverStops
from gpupool.allocations.store.tables import jobs, launches
from gpupool.base.errors import (
    HandoverRefused,
    LeaverPolicyContradicts,
    UnknownLeaverPolicy,
    UnknownTenant,
)
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import UserRole
from gpupool.signon.leaver_facts import LeaverChoice, LeaverFacts
from gpupool.tenancy.identity import CallerIdentity
from gpupool.wire.leavers.policies import LeaverPolicyIn, LeaverRowOut
from gpupool.wire.people import UserPatch
from tests.support.killed import killed_at
from tests.unit.allocations.handover.conftest import HandoverHouse
from tests.unit.allocations.handover.test_service import run

HOUR_NS = 3600 * NANOS_PER_SECOND


def leave(house: HandoverHouse, choice: LeaverChoice | None = None, grace_seconds: int = 0) -> None:
    """What a sync does in its transaction."""
    house.tenancy.users.change(house.admin, "ann", UserPatch(disabled=True))
    ann = house.ann
    facts = LeaverFacts(ann.user_id, ann.tenant_id, None, "left", "root", choice, grace_seconds)
    with house.store.write() as write:
        house.allocations.leavers.record(write, facts)


def policy(house: HandoverHouse, **fields: Any) -> None:
    body = LeaverPolicyIn.model_validate(fields)
    house.allocations.leaver_policies.put_policy(house.admin, body)


def rows(house: HandoverHouse) -> list[LeaverRowOut]:
    return list_leavers(house.store, house.admin, everything=True).items


@pytest.mark.nightly
def test_without_a_policy_jobs_are_kept(house: HandoverHouse) -> None:
    job = run(house, "train")
    leave(house)
    house.allocations.leavers.settle()
    assert (house.job(job).user, house.job(job).state) == ("ann", "running")
    assert [(row.act, row.state) for row in rows(house)] == [("keep", "done")]


def test_a_policy_of_the_tenant_counts_before_one_of_the_pool(house: HandoverHouse) -> None:
    policy(house, act="stop")
    policy(house, act="hand-over", heir="bob", tenant="nlp")
    job = run(house, "train")
    leave(house)
    counts = house.allocations.leavers.settle([house.ann.user_id])
    assert (counts.stopped, counts.handed, house.job(job).user) == (0, 1, "bob")
    assert [(row.act, row.heir, row.state) for row in rows(house)] == [("hand-over", "bob", "done")]
    house.allocations.leaver_policies.delete_policy(house.admin, None, "nlp")
    with pytest.raises(UnknownLeaverPolicy):
        house.allocations.leaver_policies.delete_policy(house.admin, None, "nlp")


@pytest.mark.nightly
def test_kept_jobs_end_when_their_time_is_over(house: HandoverHouse) -> None:
    policy(house, act="keep", keep_seconds=7200)
    job = run(house, "train")
    house.submit(1000, 8, name="sweep", array=3, principal=house.ann)
    leave(house)
    house.pass_hours(1)
    house.allocations.leavers.settle()
    assert house.job(job).state == "running"
    house.pass_hours(2)
    # The members of the array that have no row yet are one line.
    assert house.allocations.leavers.settle([house.ann.user_id]).stopped == 3
    assert house.job("sweep.2").state == "stopped"
    assert [row.state for row in rows(house)] == ["done"]


def test_a_job_that_ends_by_itself_meanwhile_is_not_told_as_stopped(
    house: HandoverHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("done", "asked"):
        run(house, name)
    house.submit(1000, 8, name="later", principal=house.ann)
    house.allocations.jobs.stop_job("asked", house.ann, None)
    leave(house, LeaverChoice("stop"))
    list_jobs = LeaverStops.list_jobs

    def list_before_an_end(stops: LeaverStops, row: Any) -> list[str]:
        names = list_jobs(stops, row)
        house.finish("done")
        return names

    monkeypatch.setattr(LeaverStops, "list_jobs", list_before_an_end)
    assert house.allocations.leavers.settle([house.ann.user_id]).stopped == 1
    assert [(row.state, row.stopped) for row in rows(house)] == [("done", 1)]
    (told,) = house.list_events("leaver.settled")
    assert told["stopped"] == 1
    assert house.job("done").state == "done"


@pytest.mark.parametrize("step", range(1, 5))
def test_a_server_that_dies_among_the_stops_counts_each_once(
    house: HandoverHouse, step: int
) -> None:
    run(house, "train")
    house.submit(1000, 8, name="later", principal=house.ann)
    leave(house, LeaverChoice("stop"))
    with killed_at(house, step):
        house.allocations.leavers.settle()
    house.restart()
    house.allocations.leavers.settle()
    assert [(row.state, row.stopped) for row in rows(house)] == [("done", 2)]


@pytest.mark.nightly
def test_a_heir_that_leaves_too_is_named_and_the_jobs_wait_for_an_admin(
    house: HandoverHouse,
) -> None:
    run(house, "train")
    leave(house, LeaverChoice("hand-over", heir="bob"))
    house.tenancy.users.change(house.admin, "bob", UserPatch(disabled=True))
    house.allocations.leavers.settle()
    (row,) = rows(house)
    assert (row.state, row.note) == ("open", "bob has left: gpupool user handover ann --to USER")
    house.tenancy.users.change(house.admin, "bob", UserPatch(disabled=False))
    house.allocations.leavers.settle()
    assert [row.state for row in rows(house)] == ["done"]


def test_the_next_user_of_an_heirs_name_gets_no_jobs(house: HandoverHouse) -> None:
    policy(house, act="hand-over", heir="bob", tenant="nlp")
    job = run(house, "train")
    house.tenancy.users.change(house.admin, "bob", UserPatch(disabled=True))
    leave(house)
    house.tenancy.users.delete(house.admin, "bob")
    house.allocations.leavers.settle()
    assert rows(house)[0].note == "bob has left: gpupool user handover ann --to USER"
    house.member("bob", "nlp")
    house.allocations.leavers.settle()
    (row,) = rows(house)
    assert (row.heir, row.state) == (None, "open")
    assert row.note == "its new owner has left: gpupool user handover ann --to USER"
    assert house.job(job).user == "ann"
    (kept,) = house.allocations.leaver_policies.list_policies(house.admin)
    assert (kept.act, kept.heir) == ("hand-over", None)


def test_the_next_user_of_a_leavers_name_is_no_leaver(house: HandoverHouse) -> None:
    leave(house, LeaverChoice("stop"), grace_seconds=3600)
    house.tenancy.users.delete(house.admin, "ann")
    assert [row.state for row in rows(house)] == ["open"]
    house.member("ann", "nlp")
    assert [(row.state, row.note) for row in rows(house)] == [("done", "ann was deleted")]


@pytest.mark.nightly
def test_a_user_that_is_enabled_again_keeps_its_jobs(house: HandoverHouse) -> None:
    job = run(house, "train")
    leave(house, LeaverChoice("keep", house.store.clock.now_ns() + HOUR_NS))
    house.tenancy.users.change(house.admin, "ann", UserPatch(disabled=False))
    house.pass_hours(2)
    house.allocations.leavers.settle()
    assert house.job(job).state == "running"
    assert [row.note for row in rows(house)] == ["ann is enabled again"]


@pytest.mark.parametrize("chosen", ["stop", "hand-over"])
@pytest.mark.sampled(2)
def test_a_server_that_dies_before_it_settled_goes_on_at_its_start(
    house: HandoverHouse, chosen: str
) -> None:
    job = run(house, "train")
    run(house, "other")
    waiting = house.submit(1000, 8, name="later", principal=house.ann).id
    heir = "bob" if chosen == "hand-over" else None
    leave(house, LeaverChoice(chosen, heir=heir))  # type: ignore[arg-type]
    house.restart()
    house.allocations.leavers.settle()
    if chosen == "stop":
        assert (house.job(waiting).state, house.job(job).user) == ("stopped", "ann")
    else:
        assert [house.job(one).user for one in (job, waiting)] == ["bob", "bob"]
    assert [row.state for row in rows(house)] == ["done"]


@pytest.mark.parametrize(
    "fields",
    [
        {"act": "hand-over"},
        {"act": "stop", "heir": "bob"},
        {"act": "stop", "keep_seconds": 3600},
        {"act": "keep", "keep_seconds": 3600, "until_ns": 1},
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(LeaverPolicyContradicts):
        check_choice(LeaverPolicyIn.model_validate(fields))


@pytest.mark.nightly
def test_a_heir_of_another_tenant_is_refused(house: HandoverHouse) -> None:
    house.tenancy.tenants.create(house.admin, "vision", None)
    house.member("eve", "vision")
    with pytest.raises(HandoverRefused, match="tenant vision"):
        policy(house, act="hand-over", heir="eve", tenant="nlp")


def test_a_grace_ends_with_the_policy_and_begins_anew_for_a_user_that_came_back(
    house: HandoverHouse,
) -> None:
    job = run(house, "train")
    leave(house, LeaverChoice("stop"), 3600)
    house.pass_hours(0.5)
    assert house.allocations.leavers.settle([house.ann.user_id]).stopped == 0
    house.tenancy.users.change(house.admin, "ann", UserPatch(disabled=False))
    leave(house, LeaverChoice("stop"), 3600)
    assert [row.note for row in rows(house)] == ["", "ann was enabled again"]
    house.pass_hours(0.75)
    house.restart()
    house.allocations.leavers.settle()
    assert house.job(job).state == "running"
    house.pass_hours(0.5)
    assert house.allocations.leavers.settle([house.ann.user_id]).stopped == 1
    assert [row.state for row in rows(house)] == ["done", "done"]


def test_a_tenants_admin_sets_its_own_policy_and_passes_no_foreign_account_on(
    house: HandoverHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a pool of one user every job is of one account.
    monkeypatch.setattr(CallerIdentity, "own_pool", False)
    policies = house.allocations.leaver_policies
    chief = replace(house.ann, role=UserRole.TENANT_ADMIN)
    policy(house, act="stop")
    made = policies.put_policy(chief, LeaverPolicyIn(act="hand-over", heir="bob"))
    assert (made.tenant, made.heir) == ("nlp", "bob")
    assert [row.tenant for row in policies.list_policies(chief)] == ["nlp"]
    for refused in (
        lambda: policies.put_policy(chief, LeaverPolicyIn(act="stop", tenant="default")),
        lambda: policies.delete_policy(chief, None, "default"),
    ):
        with pytest.raises(UnknownTenant):
            refused()
    foreign = run(house, "train")
    own = run(house, "other")
    with house.store.write() as write:
        train = sa.select(jobs.c.id).where(jobs.c.public_id == foreign).scalar_subquery()
        mine = launches.c.job_id == train
        spec = write.execute(sa.select(launches.c.spec).where(mine)).scalar_one()
        spec["run_as"] = {"uid": 4711, "gid": 4711, "name": "ann"}
        write.execute(launches.update().where(mine).values(spec=spec))
    leave(house)
    house.allocations.leavers.settle()
    assert [house.job(one).user for one in (foreign, own)] == ["ann", "bob"]
    (row,) = list_leavers(house.store, chief, everything=False).items
    assert row.note.startswith("job train stays: ")
    other = replace(chief, tenant_id=house.admin.tenant_id)
    assert list_leavers(house.store, other, everything=True).items == []
    policies.delete_policy(chief, None, None)
    assert [row.tenant for row in policies.list_policies(house.admin)] == [None]
