"""A job whose prepared cards are isolated less than its claim demands does not start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.agent.jobs.demand_check import check_demands
from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat
from gpupool.mechanisms.offers.host_facts import read_host_facts
from gpupool.mechanisms.share import CountedShare
from gpupool.model.isolation.claim_needs import read_needs
from gpupool.probes.simulated import parse_sim

CARDS = parse_sim("1xL40S")[0].devices


def prepare(state_dir: Path) -> AllocationView:
    view = AllocationView(
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
    CountedShare().prepare(view, state_dir)
    return view


def check(isolation: str, state_dir: Path) -> None:
    check_demands(
        read_needs({"isolation": isolation}),
        CountedShare(),
        prepare(state_dir),
        host=read_host_facts(own_pool=False, cgroups="none"),
        state_dir=state_dir,
    )


@pytest.mark.parametrize("isolation", ["soft", "hard", "fault"])
def test_a_share_that_is_only_counted_reaches_no_isolation(isolation: str, tmp_path: Path) -> None:
    with pytest.raises(RequestRejection) as caught:
        check(isolation, tmp_path)
    assert f"isolation {isolation} is not reached on {CARDS[0].uuid} by share" in str(caught.value)
    assert "memory is none" in str(caught.value)


def test_a_claim_that_demands_none_is_served(tmp_path: Path) -> None:
    check("none", tmp_path)
