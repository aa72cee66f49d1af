"""Rigs of the mechanisms and mode switches that hand hardware to VMs, on recorded PCI trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gpupool.mechanisms.compute_partitions import ComputePartitionSwitch
from gpupool.mechanisms.passthrough import PassthroughSwitch
from gpupool.mechanisms.pci.mode_switch import OperationSwitch
from gpupool.mechanisms.sriov import SriovSwitch
from gpupool.mechanisms.vgpu import VgpuSwitch
from gpupool.model.device import COMPUTE_PARTITION_MODES, CardMode, Device
from gpupool.probes.amd import AmdProbe
from tests.support.compute_partitions import make_kernel
from tests.support.handover_builders import CARD, build_card_machine, crash_at, make_device
from tests.support.handover_machines import MACHINES, TYPES
from tests.support.kill_rigs.contract import Call, Killer, KillRig, RigBuilder
from tests.support.kill_rigs.simulated import LATER, find_problem, read_files
from tests.support.pci_kernel import INTEL, FakeKernel, FunctionFacts, InlineRunner, build_tree

#: Plays NVIDIA's program: the kernel of the rig does what its last call asked for.
_PROGRAM = '#!/bin/sh\necho "$1" >"${0%/*}/asked"\n'
_Machine = tuple[FakeKernel, OperationSwitch, Device]


def make_killer(
    kernel: FakeKernel, state_dir: Path, settle: Callable[[], object] = str
) -> dict[str, Killer]:
    """Kill at changes of the state directory, and before and after each reaction of the kernel.

    Args:
        kernel: reacts to what is written.
        state_dir: the agent's.
        settle: what a program still does that outlives the agent; the next agent waits for its end,
            since a slow step holds its lock as long as a child of it lives.
    """

    def kill(number: int, call: Call) -> bool:
        killed = crash_at(number, kernel, state_dir, call)
        settle()
        return killed

    return {"change": kill}


def make_handover(machine: str) -> RigBuilder:
    """Return the builder of a rig on a machine of `handover_machines`."""

    @contextmanager
    def build(folder: Path) -> Iterator[KillRig]:
        state_dir = folder / "state"
        state_dir.mkdir()
        kernel, mechanism, view = MACHINES[machine](folder / "root")
        yield KillRig(
            {
                "prepare": partial(mechanism.prepare, view, state_dir),
                "unprepare": partial(mechanism.unprepare, view.allocation, LATER, state_dir),
            },
            partial(read_files, folder),
            make_killer(kernel, state_dir),
            find_problem=partial(find_problem, mechanism, state_dir),
        )

    return build


def make_passthrough(root: Path) -> _Machine:
    """A card with an audio function in its group."""
    kernel = FakeKernel(build_card_machine(root))
    return kernel, PassthroughSwitch(root, InlineRunner(kernel)), make_device()


def make_sriov(root: Path) -> _Machine:
    """An Intel card that has three of its functions made."""
    facts = FunctionFacts(CARD, 10, INTEL, own_driver="xe", total=7)
    kernel = FakeKernel(build_tree(root, [facts]))
    device = make_device(vendor="intel", labels={"virtual-functions": "3"})
    return kernel, SriovSwitch(root, InlineRunner(kernel)), device


def make_vgpu(root: Path) -> _Machine:
    """An NVIDIA card whose functions the vendor's program makes, while the switch waits."""
    kernel = FakeKernel(build_tree(root, [FunctionFacts(CARD, 10, total=16)]))
    entry = (root / "sys/bus/pci/devices" / CARD).resolve()
    (entry / "nvidia_types").write_text(TYPES)
    programs = root / "usr/bin"
    programs.mkdir(parents=True)
    (programs / "sriov-manage").write_text(_PROGRAM)
    (programs / "sriov-manage").chmod(0o755)
    (programs / "asked").write_text("\n")

    def react(_seconds: float) -> None:
        wanted = "4" if (programs / "asked").read_text() == "-e\n" else "0"
        if (entry / "sriov_numvfs").read_text().strip() != wanted:
            kernel.write(entry / "sriov_numvfs", wanted)

    runner = InlineRunner(kernel)
    runner.pause = react
    return kernel, VgpuSwitch(root, runner), make_device()


def make_partitions(mode: CardMode, root: Path) -> _Machine:
    """An MI300X that is cut into agents."""
    kernel = make_kernel(root, modes=f"SPX, {mode.upper()}")
    (device,) = AmdProbe(root).scan().devices
    return kernel, ComputePartitionSwitch(mode, root, InlineRunner(kernel)), device


def make_switch(make: Callable[[Path], _Machine]) -> RigBuilder:
    """Return the builder of a rig of a mode switch."""

    @contextmanager
    def build(folder: Path) -> Iterator[KillRig]:
        state_dir = folder / "state"
        state_dir.mkdir()
        kernel, switch, device = make(folder / "root")
        assert isinstance(switch.runner, InlineRunner)
        react = switch.runner.pause

        def leave() -> None:
            switch.leave(device, state_dir)
            # No step waits for what the vendor's program has done when it returns.
            react(0)

        yield KillRig(
            {"enter": partial(switch.enter, device, state_dir), "leave": leave},
            partial(read_files, folder),
            make_killer(kernel, state_dir, partial(react, 0)),
            made_once=("state/modes", "root/usr/bin/asked"),
        )

    return build


BUILDERS: dict[str, RigBuilder] = {
    "mechanism passthrough": make_handover("passthrough"),
    "mechanism passthrough: board": make_handover("passthrough-board"),
    "mechanism sriov": make_handover("sriov-xe"),
    "mechanism sriov: gim": make_handover("sriov-gim"),
    "mechanism sriov: i915": make_handover("sriov-i915"),
    "mechanism vgpu": make_handover("vgpu-function"),
    "mechanism vgpu: gvt": make_handover("vgpu-gvt"),
    "mechanism vgpu: mediated": make_handover("vgpu-mediated"),
    "switch passthrough": make_switch(make_passthrough),
    "switch sriov": make_switch(make_sriov),
    "switch vgpu": make_switch(make_vgpu),
    **{
        f"switch {mode}": make_switch(partial(make_partitions, mode))
        for mode in COMPUTE_PARTITION_MODES
    },
}
