"""Answers for a simulated card as NVIDIA's driver does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.mechanisms.mig.driver import CallProblem, DriverCallError, MigMode
from gpupool.mechanisms.mig.simulated_driver import SimulatedMigDriver
from gpupool.mechanisms.mig.simulated_modes import SimulatedModeStore
from gpupool.probes.simulated import parse_sim


def build_driver(folder: Path, model: str) -> tuple[SimulatedMigDriver, str]:
    (machine,) = parse_sim(f"1x{model}")
    (card,) = machine.devices
    return SimulatedMigDriver(card, SimulatedModeStore(folder)), card.uuid


def test_a_hopper_card_changes_its_mode_at_once(tmp_path: Path) -> None:
    driver, card = build_driver(tmp_path, "H200")
    assert driver.read_mode(card) == MigMode(False, False)
    assert driver.set_mode(card, True) is None
    assert driver.read_mode(card) == MigMode(True, True)


def test_an_ampere_card_changes_its_mode_at_its_reset(tmp_path: Path) -> None:
    driver, card = build_driver(tmp_path, "A100-80G")
    assert driver.set_mode(card, True) is CallProblem.RESET_REQUIRED
    assert driver.read_mode(card) == MigMode(False, True)
    assert driver.set_mode(card, False) is None, "a pending mode can be taken back"
    driver.set_mode(card, True)
    module = "gpupool.mechanisms.mig.simulated_driver"
    subprocess.run([sys.executable, "-m", module, str(tmp_path), card], check=True)
    assert driver.read_mode(card) == MigMode(True, True)


def test_a_card_described_in_mig_mode_begins_in_it(tmp_path: Path) -> None:
    driver, card = build_driver(tmp_path, "A30:mig")
    assert driver.read_mode(card) == MigMode(True, True)
    assert driver.set_mode(card, True) is None


def test_no_gpu_instance_is_made_on_a_simulated_card(tmp_path: Path) -> None:
    driver, card = build_driver(tmp_path, "H200:mig")
    with pytest.raises(DriverCallError) as caught:
        driver.create_instance(card, 19, 6, 1)
    assert caught.value.problem is CallProblem.UNSUPPORTED
    assert driver.list_instances(card) == ()
