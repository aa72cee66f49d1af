"""Rigs of the layers: each on what a mechanism has prepared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gpupool.mechanisms.card_settings.timeslice import Timeslice
from gpupool.mechanisms.contract import (
    AllocationView,
    FenceLevel,
    GrantedDevice,
    JobSeat,
    Layer,
    PreparedAllocation,
)
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.drm import ComputeMask, DeviceMemoryLimit
from gpupool.mechanisms.layers.memgroup import DriverMemoryLimits
from gpupool.mechanisms.registry import choose_mechanism
from gpupool.mechanisms.share import CountedShare
from gpupool.mechanisms.timeslice.layer import TimesliceLayer
from gpupool.probes.simgpu import create_machine
from gpupool.probes.simulated import parse_sim
from tests.support.handover_builders import read_tree
from tests.support.job_cgroups import open_pool_group
from tests.support.kill_rigs.contract import Call, KillRig, RigAbsent, RigBuilder, World
from tests.support.kill_rigs.simulated import LATER, read_files, resize_view
from tests.support.mps_host import CARD, FakeModes, describe_share
from tests.unit.mechanisms.drm.fake_cgroups import CARDS, make_group, make_view, prepare_share

MACHINE = parse_sim("4xL40S")[0]
#: What the layer of time slices adds to; it reads nothing of it.
PREPARED = PreparedAllocation({}, (), (), Path("/share"), FenceLevel.SOFT)


class FileSlices:
    """The time slice of a card in a file, so that it survives a killed agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_text(Timeslice.MEDIUM)

    def read_timeslice(self, uuid: str) -> Timeslice:
        return Timeslice(self._path.read_text())

    def write_timeslice(self, uuid: str, length: Timeslice) -> None:
        self._path.write_text(length)


def list_calls(
    layer: Layer, view: AllocationView, prepared: PreparedAllocation, state_dir: Path
) -> dict[str, Call]:
    """Return the verbs of a layer on what a mechanism has prepared."""
    return {
        "prepare": partial(layer.prepare, view, prepared, state_dir),
        "resize": partial(layer.resize, resize_view(view), state_dir),
        "unprepare": partial(layer.unprepare, view.allocation, LATER, state_dir),
    }


def describe_fenced(cards: Path, group: Path, job: str = "job-1") -> AllocationView:
    """A share of two simulated cards whose driver has memory limits, with its cgroup."""
    devices = tuple(replace(one, driver_version="615.71.09") for one in MACHINE.devices)
    return AllocationView(
        pool="pool",
        allocation="al-1",
        generation=5,
        job=job,
        tenant="team",
        sharing="fixed",
        granted=(GrantedDevice(devices[1], 300, 8 << 30), GrantedDevice(devices[2], 300, 4 << 30)),
        node_devices=devices,
        seat=JobSeat(uid=os.getuid(), gid=os.getgid()),
        machine=cards,
        cgroups=(str(group / job),),
    )


@contextmanager
def build_memgroup(folder: Path) -> Iterator[KillRig]:
    """The driver's limits of simulated cards, by real cgroups."""
    if find_templates() is None or find_simulated_libraries() is None:
        raise RigAbsent("gpupool-native is installed without its fence libraries")
    try:
        with open_pool_group() as group:
            yield _make_memgroup(folder, group)
    except pytest.skip.Exception as missing:
        raise RigAbsent(str(missing)) from missing


def _make_memgroup(folder: Path, group: Path) -> KillRig:
    cards = folder / "cards"
    state_dir = folder / "state"
    create_machine(cards / "machine", MACHINE)
    view = describe_fenced(cards, group)
    prepared = choose_mechanism(view).prepare(view, state_dir)
    assert isinstance(prepared, PreparedAllocation)

    def read_world() -> World:
        # Not the file of the cards, which is as large as their memory: their limits are beside it.
        limits = cards / "machine.limits"
        found: dict[str, object] = dict(read_tree(state_dir))
        found["limits"] = limits.read_text() if limits.exists() else "gpupool memory limits 1\n"
        found["cgroups"] = sorted(one.name for one in group.iterdir() if one.is_dir())
        return found

    return KillRig(list_calls(DriverMemoryLimits(), view, prepared, state_dir), read_world)


def make_drm(layer: Layer) -> RigBuilder:
    """Return the builder of a rig of a layer for AMD cards, on cgroups in plain files."""

    @contextmanager
    def build(folder: Path) -> Iterator[KillRig]:
        state_dir = folder / "state"
        view = make_view(make_group(folder / "cgroup"), cards=CARDS)
        calls = list_calls(layer, view, prepare_share(view, state_dir), state_dir)
        yield KillRig(
            calls,
            partial(read_files, folder),
            # A controller that was passed on stays so: other jobs of the pool may use it.
            made_once=tuple(
                f"cgroup/{above}/cgroup.subtree_control" for above in ("pool", "pool/jobs")
            ),
        )
        CountedShare().unprepare(view.allocation, LATER, state_dir)

    return build


@contextmanager
def build_timeslice(folder: Path) -> Iterator[KillRig]:
    """The time slice of a card that an operator set to medium."""
    state_dir = folder / "state"
    (state_dir / "prepared/al-1").mkdir(parents=True)
    layer = TimesliceLayer(FileSlices(folder / f"slice-{CARD.uuid}"), FakeModes(folder))
    view = describe_share(sharing="burst", priority=100)
    calls = list_calls(layer, view, PREPARED, state_dir)
    del calls["resize"]  # it changes no slice
    yield KillRig(calls, partial(read_files, folder))


BUILDERS: dict[str, RigBuilder] = {
    "layer memgroup": build_memgroup,
    "layer dmem": make_drm(DeviceMemoryLimit()),
    "layer cu-mask": make_drm(ComputeMask()),
    "layer timeslice": build_timeslice,
}
