"""NVML's calls for instances, through pynvml on a stand-in for the driver, for every layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.mig.driver import CallProblem, DriverCallError, MigMode, Virtualization
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.gate import DriverGate
from gpupool.probes.nvml.partitions import read_profiles
from tests.support.mig_cards import CARDS, MigHost, build_host
from tests.support.mig_fixtures import host, mig_library

__all__ = ["host", "mig_library"]


@pytest.mark.parametrize("model", ["A30", "A100-80G", "H200", "RTX-PRO-6000"])
def test_every_profile_of_a_board_is_created_by_its_own_id(
    mig_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    host = build_host(tmp_path, mig_library, monkeypatch, model)
    for profile in list_mig_profiles(model):
        for start in profile.starts:
            number = host.driver.create_instance(
                CARDS[0], profile.profile_id or 0, start, profile.size
            )
            compute = host.driver.create_compute(CARDS[0], number)
            (found,) = host.driver.list_instances(CARDS[0])
            assert (found.profile_id, found.start) == (profile.profile_id, start)
            assert found.compute == (compute,)
            host.driver.destroy_compute(CARDS[0], number, compute)
            host.driver.destroy_instance(CARDS[0], number)
    assert host.driver.list_instances(CARDS[0]) == ()


@pytest.mark.parametrize("model", ["A30", "H200", "RTX-PRO-6000"])
def test_the_probe_reads_the_profiles_that_the_card_reports(
    mig_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    build_host(tmp_path, mig_library, monkeypatch, model)
    driver = NvmlDriver(DriverGate())
    driver.start()
    handle = driver.nvml.nvmlDeviceGetHandleByUUID(CARDS[0])
    found = {profile.name: profile for profile in read_profiles(driver, handle)}
    assert found == {profile.name: profile for profile in list_mig_profiles(model)}


def test_a_placement_that_is_not_free_is_called_so(host: MigHost) -> None:
    host.make_foreign("1g.18gb", 0)
    with pytest.raises(DriverCallError, match="Insufficient Resources") as caught:
        host.driver.create_instance(CARDS[0], 5, 0, 4)
    assert caught.value.problem is CallProblem.OCCUPIED
    with pytest.raises(DriverCallError) as caught:
        host.driver.destroy_instance(CARDS[0], 9)
    assert caught.value.problem is CallProblem.ABSENT


def test_a_card_answers_for_its_mode_and_its_abilities(host: MigHost) -> None:
    assert host.driver.list_cards() == CARDS
    assert host.driver.read_mode(CARDS[0]) == MigMode(True, True)
    assert host.driver.can_switch_without_reset(CARDS[0])
    assert host.driver.read_minor(CARDS[1]) == 1
    host.card.resetless = 0
    assert not host.driver.can_switch_without_reset(CARDS[0])
    assert host.driver.set_mode(CARDS[0], False) is CallProblem.RESET_REQUIRED
    assert host.driver.read_mode(CARDS[0]) == MigMode(True, False)
    for number, wanted in ((0, Virtualization.NONE), (2, Virtualization.VGPU_GUEST)):
        host.card.virtualization = number
        assert host.driver.read_virtualization(CARDS[0]) is wanted
    host.card.has_mig = 0
    assert host.driver.read_mode(CARDS[0]) is None
