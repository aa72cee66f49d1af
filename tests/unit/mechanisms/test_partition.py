"""Which mechanism serves a partition: the fence on a simulated card, MIG on a real one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.agent.facts import list_device_facts
from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.partition import (
    find_mode_problem,
    find_partition_problem,
    list_stand_in_profiles,
)
from gpupool.mechanisms.registry import MECHANISMS, choose_mechanism
from gpupool.model.partition import read_profiles
from gpupool.probes.simulated import parse_sim

CARD = parse_sim("1xH200:mig")[0].devices[0]
REAL = replace(CARD, simulated=False)
PLAIN = parse_sim("1xH200")[0].devices[0]
ONE = CARD.profiles[0]


def view(device: object, profile: str | None) -> AllocationView:
    grant = GrantedDevice(device, ONE.gpu_milli, ONE.memory_bytes, profile=profile)  # type: ignore[arg-type]
    return AllocationView("pool", "a-1", 1, "j-1", "t", "fixed", (grant,), (grant.device,))


def test_a_card_publishes_profiles_in_partition_mode_alone() -> None:
    assert read_profiles(list_device_facts(CARD)["profiles"]) == CARD.profiles
    assert read_profiles(list_device_facts(REAL)["profiles"]) == REAL.profiles
    assert "profiles" not in list_device_facts(PLAIN)
    assert list_stand_in_profiles(REAL) == ()


def test_a_partition_goes_with_the_mode_of_its_card_or_not_at_all() -> None:
    assert find_mode_problem(view(CARD, ONE.name)) == ""
    assert "takes partitions alone" in find_mode_problem(view(CARD, None))
    assert "cannot be cut into 1g.18gb now" in find_mode_problem(view(PLAIN, ONE.name))
    assert find_mode_problem(view(PLAIN, None)) == ""


def test_a_partition_of_a_real_card_is_served_by_mig_and_refused_by_the_others() -> None:
    real = view(REAL, ONE.name)
    assert choose_mechanism(real).name == "mig"
    # MPS is tried for sharing mps alone, hand-over for virtual machines.
    for name in ("whole", "fence", "share"):
        assert MECHANISMS[name].explain_refusal(real).endswith("is a hardware partition")


def test_a_partition_is_never_handed_out_unheld() -> None:
    unfenced = replace(view(CARD, ONE.name), fence=False)
    assert find_partition_problem(unfenced) == "a partition (1g.18gb) needs a fence that holds it"
    with pytest.raises(RequestRejection, match="the job asked for no fence"):
        choose_mechanism(unfenced)
