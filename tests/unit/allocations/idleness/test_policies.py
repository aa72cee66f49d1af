"""Who may set which idle policy, and which rule a job has by them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadOption,
    IdleLadderContradicts,
    LooserIdlePolicy,
    NoPermission,
    StaleGeneration,
    UnknownIdlePolicy,
)
from gpupool.model.tenant import UserRole
from gpupool.wire.idleness.policies import IdlePolicyIn
from tests.support.idle_house import IdleHouse


def test_the_closest_policy_of_the_pool_holds(house: IdleHouse) -> None:
    house.set_policy(("warn", 50, None), ("stop", 120, None))
    house.set_policy(("warn", 300, None), tenant="nlp", kind="notebook")
    house.set_policy(("warn", 20, None), ("stop", 40, None), tenant="nlp")
    house.run_job("mine")
    house.run_job("anns", principal=house.ann)
    rule = house.read_state("mine").rule
    assert rule == "stop after 2h idle; you will be told at 50m"
    assert house.read_state("anns").rule == "stop after 40m idle; you will be told at 20m"


def test_a_tenant_tightens_and_never_loosens(house: IdleHouse) -> None:
    boss = house.member("boss", "nlp", UserRole.TENANT_ADMIN)
    base = house.set_policy(("warn", 50, None), ("shrink", 60, 50), ("stop", 120, None))
    with pytest.raises(LooserIdlePolicy, match=r"stop after 3h is looser than .* stop after 2h"):
        house.set_policy(("warn", 50, None), ("stop", 180, None), caller=boss)
    with pytest.raises(LooserIdlePolicy, match="3 keeps a day is looser"):
        house.set_policy(("warn", 50, None), caller=boss, keeps_per_day=3)
    assert [one.id for one in house.allocations.idleness.policies.list_all(boss)] == [base.id]
    house.set_policy(("warn", 30, None), ("stop", 90, None), caller=boss, keeps_per_day=1)
    house.run_job("anns", principal=house.ann)
    state = house.read_state("anns")
    assert state.rule == (
        "shrink to 0.05 GPU after 1h, stop after 1h30m idle; you will be told at 30m"
    )
    assert state.keeps_left == 1
    # A later change of the pool's holds for the tenant, too.
    house.set_policy(("warn", 10, None), ("stop", 20, None))
    assert house.read_state("anns").rule == "stop after 20m idle; you will be told at 10m"


def test_a_policy_of_another_tenant_is_not_found_and_the_pools_is_not_removed(
    house: IdleHouse,
) -> None:
    boss = house.member("boss", "nlp", UserRole.TENANT_ADMIN)
    pools = house.set_policy()
    other = house.set_policy(tenant="default")
    policies = house.allocations.idleness.policies
    with pytest.raises(UnknownIdlePolicy):
        policies.find(boss, other.id)
    with pytest.raises(UnknownIdlePolicy):
        policies.delete(boss, other.id)
    with pytest.raises(NoPermission):
        policies.delete(boss, pools.id)


@pytest.mark.parametrize(
    ("steps", "more"),
    [
        ([("stop", 60, None)], {}),
        ([("warn", 50, None), ("stop", 50, None)], {}),
        ([("warn", 50, None), ("stop", 60, None), ("shrink", 70, 50)], {}),
        ([("warn", 50, None), ("shrink", 60, None)], {}),
        ([("warn", 50, None), ("stop", 60, 50)], {}),
        ([("warn", 4, None)], {}),
    ],
)
def test_steps_that_contradict_are_refused(
    house: IdleHouse, steps: list[tuple[str, int, int | None]], more: dict[str, object]
) -> None:
    with pytest.raises(IdleLadderContradicts):
        house.set_policy(*steps, **more)
    assert house.allocations.idleness.policies.list_all(house.admin) == []


def test_a_project_needs_its_tenant(house: IdleHouse) -> None:
    with pytest.raises(BadOption, match="of which tenant"):
        house.set_policy(project="default")


def test_where_a_policy_acts_a_dry_run_does_not_count(house: IdleHouse) -> None:
    boss = house.member("boss", "nlp", UserRole.TENANT_ADMIN)
    house.set_policy(("warn", 50, None), ("stop", 120, None))
    house.set_policy(("warn", 5, None), ("stop", 10, None), caller=boss, mode="dry-run")
    house.run_job("anns", principal=house.ann)
    state = house.read_state("anns")
    assert (state.mode, state.rule) == ("on", "stop after 2h idle; you will be told at 50m")


def test_a_change_of_an_older_policy_is_refused(house: IdleHouse) -> None:
    policies = house.allocations.idleness.policies
    steps = [{"act": "warn", "after_seconds": 3000}]
    body = IdlePolicyIn.model_validate({"steps": steps})
    made = policies.put(house.admin, body, 0)
    assert made.generation == 1
    dry = body.model_copy(update={"mode": "dry-run"})
    assert policies.put(house.admin, dry, made.generation).generation == 2
    for read in (0, made.generation):
        with pytest.raises(StaleGeneration):
            policies.put(house.admin, body, read)
    assert policies.find(house.admin, made.id).mode == "dry-run"
