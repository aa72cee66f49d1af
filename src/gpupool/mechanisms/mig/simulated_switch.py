"""Switches simulated cards into MIG mode and back, by the rules and records of real ones.

`MigModeSwitch` decides, writes and continues after a kill; the driver below it is a stand-in. What a
simulated card cannot show is a program that keeps it open: that is found in `/proc` on real cards.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mig.host_files import HostFiles
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.mechanisms.mig.simulated_driver import SimulatedMigDriver
from gpupool.mechanisms.mig.simulated_modes import SimulatedModeStore
from gpupool.mechanisms.slow_step import run_slow_step
from gpupool.model.device import CardMode, Device, ModeNeed, ModeOffer


def locate_modes(state_dir: Path) -> SimulatedModeStore:
    """Return where an agent keeps the modes of its simulated cards."""
    return SimulatedModeStore(state_dir / "simulated-modes")


class MigSwitch:
    """The MIG switch of a node: real cards go to `real`, simulated ones to a stand-in's driver."""

    mode = CardMode.MIG

    def __init__(self, real: MigModeSwitch | None = None) -> None:
        self._real = real or MigModeSwitch()

    def describe_offer(self, device: Device) -> ModeOffer | None:
        if not device.simulated:
            return self._real.describe_offer(device)
        return ModeOffer(self.mode, _find_need(device)) if device.profiles else None

    def list_steps(self, device: Device) -> tuple[str, ...]:
        if not device.simulated:
            return self._real.list_steps(device)
        if not device.profiles:
            return ()
        steps = [f"ask the simulated driver for MIG mode on {device.uuid}"]
        if _find_need(device) is ModeNeed.RESET:
            steps.append("reset the simulated card, because it changes the mode only then")
        steps.append("read the mode back, then the profiles that the card offers")
        return tuple(steps)

    def enter(self, device: Device, state_dir: Path) -> NotYet | None:
        if not device.simulated:
            return self._real.enter(device, state_dir)
        return _build_switch(device, state_dir).enter(_as_real(device), state_dir)

    def leave(self, device: Device, state_dir: Path) -> NotYet | None:
        if not device.simulated:
            return self._real.leave(device, state_dir)
        return _build_switch(device, state_dir).leave(_as_real(device), state_dir)


def _build_switch(device: Device, state_dir: Path) -> MigModeSwitch:
    store = locate_modes(state_dir)
    store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The folder has neither device nodes nor processes, so none of the host's is looked at.
    host = HostFiles(root=store.folder, processes=store.folder)
    module = "gpupool.mechanisms.mig.simulated_driver"
    reset_command = (sys.executable, "-m", module, str(store.folder))
    driver = SimulatedMigDriver(device, store)
    # A simulated card is none of NVML's, so nothing is closed for its reset.
    return MigModeSwitch(driver, host, run_slow_step, reset_command)


def _as_real(device: Device) -> Device:
    """Return the card as `MigModeSwitch` expects a card with MIG."""
    return replace(device, simulated=False, partitioned=bool(device.partitioned))


def _find_need(device: Device) -> ModeNeed:
    driver = SimulatedMigDriver(device, SimulatedModeStore(Path()))
    resetless = driver.can_switch_without_reset(device.uuid)
    return ModeNeed.IDLE_CARD if resetless else ModeNeed.RESET
