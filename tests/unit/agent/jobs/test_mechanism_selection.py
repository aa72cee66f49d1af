"""An agent takes the first mechanism of the plan that does not refuse, with the real mechanisms."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.jobs.mechanism_selection import MechanismSelection, select_mechanism
from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat
from gpupool.mechanisms.share import CountedShare
from gpupool.model.enforcement import EnforcementLevels, FenceLevel, spread_level
from gpupool.probes.simulated import parse_sim
from gpupool.wire.fleet import WorkOut
from gpupool.wire.mechanisms import PlannedMechanism

CARDS = parse_sim("1xL40S")[0].devices
WHOLE_CARD = GrantedDevice(CARDS[0], 1000, CARDS[0].memory_bytes)
SOFT = spread_level(FenceLevel.SOFT)
#: The job asked for no fence, so the fence refuses it.
VIEW = AllocationView(
    pool="pool",
    allocation="al-1",
    generation=1,
    job="job-1",
    tenant="team",
    sharing="fixed",
    granted=(GrantedDevice(CARDS[0], 300, 8 << 30),),
    node_devices=CARDS,
    seat=JobSeat(uid=os.getuid(), gid=os.getgid()),
    fence=False,
)
WORK = WorkOut(
    allocation="al-1",
    generation=1,
    job="job-1",
    job_name="train",
    want="run",
    tenant="team",
    user="ann",
    sharing="fixed",
    seats=[],
    argv=["true"],
    cwd="/",
    env={},
    umask=0o22,
    limits={},
    run_as=None,
    attached=False,
    max_seconds=None,
    started=False,
)


def plan(*names: str, **needs: str) -> WorkOut:
    planned = [
        PlannedMechanism.model_validate({"mechanism": name, "holds": SOFT.write()})
        for name in names
    ]
    return WORK.model_copy(update={"plan": planned, "needs": needs})


def select(work: WorkOut, state_dir: Path, view: AllocationView = VIEW) -> MechanismSelection:
    return select_mechanism(work, view, state_dir)


def test_the_first_of_the_plan_is_taken_even_if_the_registry_has_another_one_first(
    tmp_path: Path,
) -> None:
    view = replace(VIEW, granted=(WHOLE_CARD,), fence=True)
    assert select(WORK, tmp_path, view).mechanism.name == "whole"
    taken = select(plan("share", "whole", goal="density"), tmp_path, view)
    assert (taken.mechanism.name, dict(taken.refused)) == ("share", {})


def test_a_refusal_of_the_mechanism_is_final_and_reported(tmp_path: Path) -> None:
    taken = select(plan("whole", "fence", "share", isolation="soft"), tmp_path)
    assert taken.mechanism.name == "share"
    assert list(taken.refused) == ["whole", "fence"]
    assert taken.refused["whole"] == f"{CARDS[0].uuid} is granted in part"


def test_a_mechanism_that_this_agent_does_not_know_is_passed_over(tmp_path: Path) -> None:
    taken = select(plan("teleport", "share", goal="latency"), tmp_path)
    assert dict(taken.refused) == {"teleport": "this agent does not know it"}
    assert taken.mechanism.name == "share"


def test_no_weaker_mechanism_serves_a_demand_whose_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestRejection) as caught:
        select(plan("whole", "mig", isolation="hard"), tmp_path)
    assert "whole: " in caught.value.message
    assert "mig: " in caught.value.message


def test_a_goal_alone_refuses_no_job(tmp_path: Path) -> None:
    taken = select(plan("whole", goal="latency"), tmp_path)
    assert taken.mechanism.name == "share"
    assert list(taken.refused) == ["whole"]


def test_the_mechanism_on_record_stays_when_the_plan_changes(tmp_path: Path) -> None:
    view = replace(VIEW, granted=(WHOLE_CARD,))
    CountedShare().prepare(view, tmp_path)
    taken = select(plan("whole", "share", isolation="soft"), tmp_path, view)
    assert taken.mechanism.name == "share"
    assert dict(taken.refused) == {"whole": "it refused when the allocation was prepared"}
    assert select(plan("whole", isolation="soft"), tmp_path, view).mechanism.name == "share"


def test_a_difference_from_the_plan_names_the_refused_and_the_weaker_levels(
    tmp_path: Path,
) -> None:
    taken = select(plan("whole", "share", isolation="soft"), tmp_path)
    text = taken.describe_difference(EnforcementLevels(memory=FenceLevel.SOFT))
    assert text == (
        f"it has share: whole refused: {CARDS[0].uuid} is granted in part; "
        "compute is none, soft was planned"
    )
    assert select(plan("share"), tmp_path).describe_difference(SOFT) == ""
