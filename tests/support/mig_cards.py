"""Cards with MIG that behave as real ones: a compiled NVML, its state in a file, and a host's files.

The state file outlives a killed process, as a card's state does. Tests change it as an operator, a
reboot or another tool would.
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat, NotYet
from gpupool.mechanisms.mig.creation import run_creation
from gpupool.mechanisms.mig.driver import InstanceDriver
from gpupool.mechanisms.mig.host_files import HostFiles
from gpupool.mechanisms.slow_step import StepResult
from gpupool.model.device import CardMode, Device
from gpupool.model.partition import PartitionProfile
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.gate import DriverGate
from gpupool.probes.nvml.instances import NvmlInstances

SOURCE = Path(__file__).with_name("mig_nvml.c")
CARDS = ("GPU-00000000-aaaa", "GPU-00000001-aaaa")
#: By model: the index in NVML's enumeration of each profile id (nvml.h; gpu-operator and mig-parted
#: issues list both).
_INDEX = {
    "A30": {14: 0, 21: 7, 5: 1, 6: 8, 0: 3},
    "RTX-PRO-6000": {
        14: 0,
        21: 7,
        47: 10,
        65: 15,
        67: 13,
        5: 1,
        35: 11,
        64: 16,
        66: 14,
        0: 3,
        32: 12,
    },
    "H200": {19: 0, 20: 7, 15: 9, 14: 1, 9: 2, 5: 3, 0: 4},
    "A100-80G": {19: 0, 20: 7, 15: 9, 14: 1, 9: 2, 5: 3, 0: 4},
}
_UNITS = {"A30": 4, "RTX-PRO-6000": 12, "H200": 8, "A100-80G": 8}


def _fields(**kinds: Any) -> list[tuple[str, Any]]:
    return list(kinds.items())


_U32 = ctypes.c_uint32


class Shape(ctypes.Structure):
    _fields_ = _fields(
        used=_U32,
        id=_U32,
        slices=_U32,
        size=_U32,
        most=_U32,
        media=_U32,
        memory_mb=_U32,
        start_count=_U32,
        starts=_U32 * 8,
        name=ctypes.c_char * 48,
    )


class Instance(ctypes.Structure):
    _fields_ = _fields(
        used=_U32, number=_U32, shape=_U32, start=_U32, size=_U32, compute_used=_U32 * 8
    )


class Card(ctypes.Structure):
    _fields_ = _fields(
        has_mig=_U32,
        current=_U32,
        pending=_U32,
        resetless=_U32,
        hidden_holder=_U32,
        virtualization=_U32,
        busy_instance=_U32,
        deaf=_U32,
        instances=Instance * 16,
        uuid=ctypes.c_char * 48,
    )


class State(ctypes.Structure):
    _fields_ = _fields(
        units=_U32, die_at=_U32, steps=_U32, calls=_U32, shapes=Shape * 18, cards=Card * 2
    )


def compile_library(folder: Path) -> Path:
    """Compile the stand-in as `libnvidia-ml.so.1`."""
    library = folder / "libnvidia-ml.so.1"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, library, SOURCE], check=True)
    return library


@dataclass
class MigHost:
    """A machine with two cards of one model."""

    folder: Path
    model: str
    state: State
    driver: InstanceDriver
    files: HostFiles
    library: Path
    gate: DriverGate

    @property
    def card(self) -> Card:
        """The first card."""
        found: Card = self.state.cards[0]
        return found

    def snapshot(self) -> bytes:
        """Return the state of both cards, byte for byte."""
        return bytes(self.state.cards)

    def list_numbers(self, position: int = 0) -> list[int]:
        """Return the numbers of the GPU instances on a card."""
        return [one.number for one in self.state.cards[position].instances if one.used]

    def reboot(self) -> None:
        """Lose all instances; the mode survives on cards that need a reset for it (Ampere)."""
        self.reset()
        for card in self.state.cards:
            card.current = 0 if card.resetless else card.pending
            card.pending = card.current
        boot = self.files.root / "proc/sys/kernel/random/boot_id"
        boot.write_text(f"{boot.read_text().strip()}-next\n")

    def reset(self) -> None:
        """Lose all instances and make the pending mode the current one."""
        for card in self.state.cards:
            card.current = card.pending
            ctypes.memset(card.instances, 0, ctypes.sizeof(card.instances))

    def make_device(self, position: int = 0) -> Device:
        """Return the card as the probe would describe it."""
        mode = self.driver.read_mode(CARDS[position])
        on = mode is not None and mode.current
        return Device(
            CARDS[position],
            position,
            "nvidia",
            "NVIDIA H200",
            self.model,
            143_360 << 20,
            device_paths=(f"/dev/nvidia{position}", f"/dev/dri/renderD{128 + position}"),
            partitioned=None if mode is None else on,
            profiles=list_mig_profiles(self.model),
            mode=CardMode.MIG if on else CardMode.PLAIN,
        )

    def make_view(self, *profiles: str, start: int | None = None) -> AllocationView:
        """Return an allocation of one partition on each of the first cards."""
        granted = []
        for position, name in enumerate(profiles):
            device = self.make_device(position)
            profile = next((one for one in device.profiles if one.name == name), None)
            milli = profile.gpu_milli if profile else 100
            memory = profile.memory_bytes if profile else 1 << 30
            granted.append(GrantedDevice(device, milli, memory, profile=name, start=start))
        devices = (self.make_device(0), self.make_device(1))
        return AllocationView(
            "pool", "al-1", 5, "job-1", "team", "fixed", tuple(granted), devices, JobSeat()
        )

    def make_foreign(self, profile: str, start: int, position: int = 0) -> int:
        """Create an instance as another tool would; returns its number."""
        found = next(one for one in list_mig_profiles(self.model) if one.name == profile)
        number = self.driver.create_instance(
            CARDS[position], found.profile_id or 0, start, found.size
        )
        self.driver.create_compute(CARDS[position], number)
        return number

    def run_step(self, folder: Path, name: str, arguments: object, reason: str) -> StepResult:
        """Run the creation in this process, so that a test can end it at any line."""
        code, text = run_creation(self.driver, folder, self.files)
        return StepResult(code, text)

    def run_later(self, folder: Path, name: str, arguments: object, reason: str) -> NotYet:
        """Answer as a step that never comes to its end."""
        return NotYet(reason, 0.5)


def open_state(path: Path) -> State:
    """Map the file that stands for the cards."""
    with path.open("r+b") as file:
        return State.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(State)))


def build_host(
    folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch, model: str = "H200"
) -> MigHost:
    """Make a machine whose cards are in MIG mode and empty."""
    path = folder / "cards"
    path.write_bytes(bytes(ctypes.sizeof(State)))
    state = open_state(path)
    state.units = _UNITS[model]
    for profile in list_mig_profiles(model):
        _describe_shape(state.shapes[_INDEX[model][profile.profile_id or 0]], profile)
    for position, uuid in enumerate(CARDS):
        card = state.cards[position]
        card.uuid = uuid.encode()
        card.has_mig = card.current = card.pending = card.resetless = 1
    monkeypatch.setenv("MIG_STATE", str(path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    loaded = ctypes.CDLL(str(library))
    assert loaded.mig_state_size() == ctypes.sizeof(State)
    loaded.mig_forget_state()
    monkeypatch.setattr(pynvml, "nvmlLib", loaded)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    files = _write_host_files(folder / "root")
    gate = DriverGate()
    driver = NvmlInstances(NvmlDriver(gate))
    return MigHost(folder, model, state, driver, files, library, gate)


def _describe_shape(shape: Shape, profile: PartitionProfile) -> None:
    shape.used = 1
    shape.id = profile.profile_id
    shape.slices = int(profile.name[0])
    shape.size = profile.size
    shape.most = profile.max_count
    shape.media = int(profile.media)
    shape.memory_mb = profile.memory_bytes >> 20
    shape.start_count = len(profile.starts)
    for position, start in enumerate(profile.starts):
        shape.starts[position] = start
    shape.name = profile.name.encode()


def _write_host_files(root: Path) -> HostFiles:
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text("boot-1\n")
    (root / "proc/devices").write_text("Character devices:\n195 nvidia\n237 nvidia-caps\n")
    (root / "proc/driver/nvidia-caps").mkdir(parents=True)
    lines = ["config 1", "monitor 2"]
    minor = 3
    for card in range(2):
        for instance in range(15):
            lines.append(f"gpu{card}/gi{instance}/access {minor}")
            lines.append(f"gpu{card}/gi{instance}/ci0/access {minor + 1}")
            minor += 2
    (root / "proc/driver/nvidia-caps/mig-minors").write_text("\n".join(lines) + "\n")
    (root / "dev/nvidia-caps").mkdir(parents=True)
    for number in range(1, minor):
        (root / f"dev/nvidia-caps/nvidia-cap{number}").write_text("")
    for card in range(2):
        (root / f"dev/nvidia{card}").write_text("")
    return HostFiles(root=root)


def rename_allocation(view: AllocationView, allocation: str) -> AllocationView:
    """Return the same allocation under another name."""
    return replace(view, allocation=allocation)
