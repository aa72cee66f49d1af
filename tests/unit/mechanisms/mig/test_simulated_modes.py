"""Keeps the mode of each simulated card in a file of its own."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.mig.simulated_modes import SimulatedModeStore
from gpupool.model.device import CardMode
from gpupool.probes.nvml.instance_calls import MigMode
from gpupool.probes.simulated import parse_sim


def test_a_card_that_was_not_switched_is_as_its_machine_describes_it(tmp_path: Path) -> None:
    (machine,) = parse_sim("1xH200+1xH200:mig")
    store = SimulatedModeStore(tmp_path / "none")
    marked = store.mark_modes(machine.devices)
    assert [(one.partitioned, one.mode) for one in marked] == [
        (None, CardMode.PLAIN),
        (True, CardMode.MIG),
    ]
    assert store.read_mode(machine.devices[0].uuid) is None


def test_a_switched_card_is_shown_in_its_mode_and_others_stay(tmp_path: Path) -> None:
    (machine,) = parse_sim("1xH200+1xH200:mig")
    plain, mig = machine.devices
    store = SimulatedModeStore(tmp_path)
    store.write_mode(plain.uuid, MigMode(True, True))
    marked = store.mark_modes(machine.devices)
    assert [one.mode for one in marked] == [CardMode.MIG, CardMode.MIG]
    store.write_mode(mig.uuid, MigMode(False, False))
    marked = store.mark_modes(machine.devices)
    assert [(one.partitioned, one.mode) for one in marked] == [
        (True, CardMode.MIG),
        (False, CardMode.PLAIN),
    ]


def test_a_pending_mode_is_current_after_a_reset_alone(tmp_path: Path) -> None:
    store = SimulatedModeStore(tmp_path)
    store.write_mode("GPU-1", MigMode(False, True))
    (machine,) = parse_sim("1xA100-80G")
    (card,) = machine.devices
    store.write_mode(card.uuid, MigMode(False, True))
    assert store.mark_modes(machine.devices)[0].mode is CardMode.PLAIN
    for _ in range(2):
        store.reset_card(card.uuid)
        assert store.read_mode(card.uuid) == MigMode(True, True)
    assert store.read_mode("GPU-1") == MigMode(False, True), "another card is not reset"
