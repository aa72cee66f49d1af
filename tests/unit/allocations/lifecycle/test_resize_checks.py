"""Resizes that the job's state, its cards or the quotas refuse, with the numbers."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BeyondQuota,
    NoRoomNow,
    RequestRejection,
    WrongState,
)
from gpupool.base.units import GIB
from gpupool.wire.people import LimitIn, QuotaIn
from tests.support.house import House
from tests.support.ledger_sums import held, used
from tests.support.resizing import quota, resize, running


def test_more_than_is_free_on_its_card_is_refused_with_the_numbers_and_the_most(
    house: House,
) -> None:
    running(house, "train")
    running(house, "beside", 500, 100)
    with pytest.raises(NoRoomNow) as refused:
        resize(house, "train", 600, 50)
    assert refused.value.message == (
        "node-1:0 has 0.20 GPU free where 0.30 more would be needed and 32768 MiB free where 43008 MiB more would be "
        "needed; job train holds 0.30 GPU (30 % compute) + 8192 MiB of it"
    )
    assert (
        refused.value.hint
        == "the most it could have now: gpupool resize train --gpu 0.5 --memory 40960MiB"
    )
    assert used(house)[0] == (800, 108 * GIB, 2)
    assert resize(house, "train", 500, 40).changed


def test_room_on_another_card_does_not_help(house: House) -> None:
    running(house, "a", 600)
    running(house, "b", 400)
    assert used(house)[1] == (0, 0, 0)
    with pytest.raises(NoRoomNow):
        resize(house, "a", 700)


def test_what_grows_stays_within_the_quota_and_what_shrinks_always_may(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "physics", None)
    user = house.member("ada", "physics")
    house.tenancy.put_quota(
        house.admin, "physics", QuotaIn(nominal_milli=400, nominal_memory_bytes=20 * GIB)
    )
    running(house, "train", principal=user)
    with pytest.raises(BeyondQuota) as refused:
        resize(house, "train", 500, who=user)
    assert (
        refused.value.message
        == "tenant physics holds 0.30 of its maximum 0.40 GPU; this claim needs 0.20 more"
    )
    assert refused.value.hint == (
        "an admin can raise it: gpupool quota set; "
        "the most it could have now: gpupool resize train --gpu 0.4 --memory 20480MiB"
    )
    with pytest.raises(
        BeyondQuota, match="holds 8192 of its maximum 20480 MiB; this claim needs 22528 MiB more"
    ):
        resize(house, "train", gib=30, who=user)
    assert resize(house, "train", 400, who=user).changed
    house.tenancy.put_quota(
        house.admin, "physics", QuotaIn(nominal_milli=100, nominal_memory_bytes=20 * GIB)
    )
    assert resize(house, "train", 200, who=user).changed
    assert held(house, "physics") == (200, 8 * GIB)


def test_what_grows_has_to_find_room_in_its_cohort_as_well(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=800, borrowing_milli=0))
    for tenant in ("red", "blue"):
        quota(house, tenant, cohort="lab", borrowing_milli=None)
    running(house, "mine", 400, tenant="red")
    running(house, "theirs", 300, tenant="blue")
    with pytest.raises(
        BeyondQuota,
        match=r"cohort lab holds 0\.70 of its maximum 0\.80 GPU; this claim needs 0\.20",
    ):
        resize(house, "mine", 600)
    assert resize(house, "mine", 500).changed
    assert resize(house, "theirs", 100).changed
    assert resize(house, "mine", 700).changed


def test_what_grows_stays_within_the_limit_of_the_model_it_runs_on(house: House) -> None:
    quota(house, "red", others=[LimitIn(resource="gpu:H200", nominal=1000, borrowing=0)])
    running(house, "train", 300, count=2, tenant="red")
    with pytest.raises(BeyondQuota) as refused:
        resize(house, "train", 600)
    assert (
        refused.value.message
        == "tenant red holds 0.60 of its maximum 1.00 H200; this claim needs 0.60 more"
    )
    assert (refused.value.hint or "").endswith("gpupool resize train --gpu 0.5 --memory 143360MiB")
    assert resize(house, "train", 500).changed


def test_what_is_not_preemptible_does_not_grow_into_what_others_are_guaranteed(
    house: House,
) -> None:
    quota(house, "owner", nominal_milli=1500)
    quota(house, "red", nominal_milli=200, borrowing_milli=None)
    running(house, "firm", 300, tenant="red")
    with pytest.raises(BeyondQuota) as refused:
        resize(house, "firm", 600)
    assert refused.value.message == (
        "of the pool's 2.00 GPU 0.30 are held by jobs that may not be preempted and 1.50 are guaranteed to others and "
        "not in such use; this claim, not preemptible, needs 0.30 more"
    )
    assert refused.value.hint == (
        "submit it with --preemptible: then it may use what others are guaranteed, until they need it; "
        "the most it could have now: gpupool resize firm --gpu 0.5 --memory 143360MiB"
    )
    assert resize(house, "firm", 500).changed
    running(house, "lent", 300, tenant="red", preemptible=True)
    assert resize(house, "lent", 500).changed


def test_a_whole_card_has_no_fence_to_change(house: House) -> None:
    running(house, "train", 1000, None)
    with pytest.raises(RequestRejection, match="has node-1:0 whole: no fence runs in it"):
        resize(house, "train", 500)


@pytest.mark.parametrize(
    ("sharing", "text"), [("best-effort", "best effort"), ("offline", "offline")]
)
def test_a_share_without_a_promise_can_change_its_memory_alone(
    house: House, sharing: str, text: str
) -> None:
    running(house, "train", sharing=sharing)
    with pytest.raises(RequestRejection, match=f"is {text}: it holds no compute"):
        resize(house, "train", 500)
    resize(house, "train", gib=16)
    assert used(house)[0] == (0, 16 * GIB, 1)
    assert house.job("train").share == f"0.30 GPU ({text}) + 16384 MiB"


def test_only_what_runs_can_be_resized(house: House) -> None:
    house.submit(1000, None, name="first")
    with pytest.raises(WrongState, match="is starting"):
        resize(house, "first", 500)
    house.submit(1000, None, count=2, name="waits")
    with pytest.raises(WrongState, match="waits and holds nothing yet"):
        resize(house, "waits", 500)
    house.allocations.jobs.stop_job("first", house.admin, None)
    running(house, "share")
    house.allocations.jobs.stop_job("share", house.admin, None)
    with pytest.raises(WrongState, match="being stopped"):
        resize(house, "share", 500)
    house.finish("share")
    with pytest.raises(WrongState, match="is stopped: only a running job"):
        resize(house, "share", 500)


def test_a_draining_card_takes_nothing_more_and_gives_back_all_the_same(house: House) -> None:
    running(house, "train")
    house.fleet.release_devices(["node-1:0"], True, house.admin)
    with pytest.raises(
        RequestRejection, match="node-1:0 is draining: a share on it can only shrink"
    ):
        resize(house, "train", 500)
    assert resize(house, "train", 100, 4).changed
