"""Switches cards into MIG mode and back, with or without a reset of the card.

Hopper and newer cards switch while they are idle. Ampere cards change the mode at their next reset.
The driver answers SUCCESS in both cases, also where nothing happened, so this module reads the
activation status and then the mode itself. A switch that fails leaves no pending mode behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gpupool.base.errors import (
    GpupoolError,
    ProbeSuspended,
    RequestRejection,
    ServiceUnavailable,
    StillInUse,
)
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mig.driver import (
    CallProblem,
    DriverCallError,
    InstanceDriver,
    MigMode,
    Virtualization,
)
from gpupool.mechanisms.mig.host_files import HostFiles, find_open_handles, format_handles
from gpupool.mechanisms.mig.records import lock_card
from gpupool.mechanisms.mig.switch_record import MigSwitchRecord
from gpupool.mechanisms.pci.holders import suggest_end
from gpupool.mechanisms.released_step import run_released_step
from gpupool.mechanisms.slow_step import (
    PAUSE_SECONDS,
    StepResult,
    forget_slow_step,
    is_step_running,
)
from gpupool.model.device import CardMode, Device, ModeNeed, ModeOffer
from gpupool.probes.nvml.instances import NvmlInstances

#: The vendor's command for a reset; NVML has no call for it. It refuses while the card is in use,
#: and on cards that are joined by NVLink until all of them are reset together.
RESET_COMMAND = ("nvidia-smi", "--gpu-reset", "-i")
#: Seconds between two looks at a card that waits for a restart of its VM.
RESTART_PAUSE_SECONDS = 60.0
#: What holds a card open without being listed as a process (NVIDIA/DCGM#276, gpu-operator#118).
HIDDEN_HOLDERS = (
    "stop what may have the card open: systemctl stop nvidia-dcgm nvidia-persistenced nvsm, "
    "and device plugins in containers"
)

StepRunner = Callable[[Path, str, Sequence[str], str], StepResult | NotYet]


class MigModeSwitch:
    """Sets cards up for hardware partitions, and undoes that.

    Args:
        driver: the driver's calls; loaded on first use.
        host: where this process sees the host's files.
        run_step: starts a slow step in a process of its own, with NVML closed in this one.
        reset_command: resets the card whose uuid is appended.
    """

    mode = CardMode.MIG

    def __init__(
        self,
        driver: InstanceDriver | None = None,
        host: HostFiles | None = None,
        run_step: StepRunner = run_released_step,
        reset_command: Sequence[str] = RESET_COMMAND,
    ) -> None:
        self._driver: InstanceDriver = driver or NvmlInstances()
        self._host = host or HostFiles()
        self._run_step = run_step
        self._reset_command = tuple(reset_command)

    def describe_offer(self, device: Device) -> ModeOffer | None:
        if not _has_mig(device):
            return None
        try:
            need = self._find_need(device.uuid)
            blocked = self._find_block(device.uuid)
        except (DriverCallError, ServiceUnavailable) as error:
            return ModeOffer(self.mode, blocked_by=f"the driver cannot be asked: {error}")
        return ModeOffer(self.mode, need, blocked_by=blocked)

    def list_steps(self, device: Device) -> tuple[str, ...]:
        if not _has_mig(device):
            return ()
        steps = [
            f"check that no process has {_locate_node(device)} open",
            f"ask the driver for MIG mode on {device.uuid}",
        ]
        need = self._find_need(device.uuid)
        if need is ModeNeed.RESET:
            command = " ".join((*self._reset_command, device.uuid))
            steps.append(f"reset the card, because it changes the mode only then: {command}")
        if need is ModeNeed.REBOOT:
            steps.append("wait for a restart of this VM, because the host refuses a reset")
        steps.append("read the mode back, then the profiles that the card offers")
        return tuple(steps)

    def enter(self, device: Device, state_dir: Path) -> NotYet | None:
        return self._switch(device, True, state_dir)

    def leave(self, device: Device, state_dir: Path) -> NotYet | None:
        return self._switch(device, False, state_dir)

    def restore(self, devices: Iterable[Device], state_dir: Path) -> Mapping[str, str]:
        """Enter the mode again on cards that lost it: at a boot, or when the driver was reloaded.

        For an agent, until nothing waits. Returns what each card that was in the mode and is not
        waits for, by uuid. A switch that is under way, in either direction, is the server's to go
        on with. Idempotent.
        """
        waiting = {}
        for device in devices:
            if not MigSwitchRecord(state_dir, device.uuid).is_restorable(device.mode):
                continue
            try:
                found = self.enter(device, state_dir)
            except GpupoolError as error:
                waiting[device.uuid] = error.message
                continue
            if found is not None:
                waiting[device.uuid] = found.reason
        return waiting

    def is_leaving(self, card: str, state_dir: Path) -> bool:
        """Whether a card is on the way out of the mode: until `leave` has answered None."""
        return MigSwitchRecord(state_dir, card).is_leaving()

    def _switch(self, device: Device, wanted: bool, state_dir: Path) -> NotYet | None:
        """Bring the card into the wanted state. Idempotent; finishes what a crash left half-way."""
        card = device.uuid
        record = MigSwitchRecord(state_dir, card)
        try:
            # A creation of a partition and a switch exclude each other.
            with lock_card(state_dir, card):
                found = self._driver.read_mode(card)
                if found is None:
                    raise RequestRejection(f"{card} ({device.model}) has no MIG")
                # A reset into the other mode does not count: an agent was killed in it.
                is_new = not record.is_resetting() or found.pending is not wanted
                is_done = found == MigMode(wanted, wanted)
                if (is_new or is_done) and is_step_running(record.folder, f"reset-{card}"):
                    # Its result comes after the mode has changed. Left behind, it would be taken
                    # for that of the next switch.
                    return NotYet(f"the reset of {card} ends", PAUSE_SECONDS)
                if is_done:
                    self._finish(record, card, wanted)
                    return None
                if is_new:
                    forget_slow_step(record.folder, f"reset-{card}")
                    self._refuse_switch(device, wanted)
                    record.write_before(found)
                    record.change(resetting=False, leaving=not wanted)
                    self._ask_for_mode(record, card, wanted)
                if self._driver.read_mode(card) == MigMode(wanted, wanted):
                    self._finish(record, card, wanted)
                    return None
                return self._reset_card(record, card, wanted)
        except DriverCallError as error:
            raise ServiceUnavailable(f"the driver refuses: {error}", hint=HIDDEN_HOLDERS) from error
        except ProbeSuspended as error:
            # The reset of this card or a switch of another one has NVML closed.
            return NotYet(error.message, PAUSE_SECONDS)

    def _finish(self, record: MigSwitchRecord, card: str, wanted: bool) -> None:
        """Close the switch in the record; after `leave` put back what was pending before."""
        forget_slow_step(record.folder, f"reset-{card}")
        if wanted:
            record.change(resetting=False, entered=True, leaving=False)
            return
        before = record.read_before()
        if before is not None and before.pending and not before.current:
            self._driver.set_mode(card, True)
        record.remove()

    def _refuse_switch(self, device: Device, wanted: bool) -> None:
        if blocked := self._find_block(device.uuid):
            raise RequestRejection(f"{device.uuid} cannot be switched: {blocked}")
        instances = self._driver.list_instances(device.uuid)
        if instances and not wanted:
            numbers = ", ".join(str(one.number) for one in instances)
            raise StillInUse(
                f"{device.uuid} has {len(instances)} GPU instances ({numbers})",
                hint="release their allocations; nvidia-smi mig -lgi lists those of other tools",
            )
        handles = find_open_handles(self._host, [_locate_node(device)])
        if handles:
            raise StillInUse(
                f"{device.uuid} is open in {format_handles(handles)}",
                hint=suggest_end(one.name for one in handles)
                or "end them, or stop the service that they belong to",
            )

    def _ask_for_mode(self, record: MigSwitchRecord, card: str, wanted: bool) -> None:
        """Ask for the mode, and take the wish back where the card did not follow it."""
        try:
            problem = self._driver.set_mode(card, wanted)
        except DriverCallError:
            record.abandon(wanted)
            raise
        if problem is None or problem is CallProblem.RESET_REQUIRED:
            return
        self._take_back(record, card, wanted)
        raise StillInUse(
            f"{card} did not change its MIG mode: the driver answers success with status {problem}, "
            "and no process has the card open",
            hint=HIDDEN_HOLDERS,
        )

    def _reset_card(self, record: MigSwitchRecord, card: str, wanted: bool) -> NotYet | None:
        """Reset the card in a process of its own, and read the mode back."""
        need = self._find_need(card)
        if need is ModeNeed.IDLE_CARD:
            self._take_back(record, card, wanted)
            raise ServiceUnavailable(
                f"the driver accepted the mode of {card} and did not change it"
            )
        if need is ModeNeed.REBOOT:
            reason = f"{card} changes its MIG mode when this VM restarts"
            return NotYet(reason, RESTART_PAUSE_SECONDS)
        record.change(resetting=True)
        name = f"reset-{card}"
        result = self._run_step(
            record.folder,
            name,
            (*self._reset_command, card),
            f"{card} is reset to change its MIG mode",
        )
        if isinstance(result, NotYet):
            return result
        mode = self._driver.read_mode(card)
        forget_slow_step(record.folder, name)
        if mode == MigMode(wanted, wanted):
            self._finish(record, card, wanted)
            return None
        self._take_back(record, card, wanted)
        raise RequestRejection(
            f"the reset of {card} did not change its MIG mode (exit code {result.exit_code}): "
            f"{result.output.strip() or 'no output'}",
            hint="cards joined by NVLink are reset together; in a VM restart the VM",
        )

    def _take_back(self, record: MigSwitchRecord, card: str, wanted: bool) -> None:
        """Remove a pending mode: it would take effect at some later reset."""
        before = record.read_before()
        pending = before.pending if wanted and before is not None else not wanted
        self._driver.set_mode(card, pending)
        record.abandon(wanted)

    def _find_need(self, card: str) -> ModeNeed:
        if self._driver.can_switch_without_reset(card):
            return ModeNeed.IDLE_CARD
        # The hypervisor refuses a reset from inside a VM.
        guest = self._driver.read_virtualization(card) is Virtualization.PASSTHROUGH
        return ModeNeed.REBOOT if guest else ModeNeed.RESET

    def _find_block(self, card: str) -> str:
        if self._driver.read_virtualization(card) is Virtualization.VGPU_GUEST:
            return "this machine is a vGPU guest: its host decides how the card is divided"
        return ""


def _has_mig(device: Device) -> bool:
    return device.vendor == "nvidia" and not device.simulated and device.partitioned is not None


def _locate_node(device: Device) -> str:
    """Return the node of the whole card."""
    for path in device.device_paths:
        if path.startswith("/dev/nvidia"):
            return path
    return "/dev/nvidiactl"
