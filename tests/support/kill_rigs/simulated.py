"""Rigs of the mechanisms that need no hardware, on simulated cards, and of MPS on a host that plays it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat, Mechanism
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.probes.simulated import parse_sim
from tests.support.handover_builders import read_tree
from tests.support.kill_rigs.contract import Call, KillRig, RigAbsent, RigBuilder, World
from tests.support.mps_host import build_automatic, describe_share

#: Undoes any generation that a rig prepares.
LATER = 9


def describe_simulated(milli: int, *, fence: bool = True) -> AllocationView:
    """An allocation on a simulated card; 1000 is a whole one."""
    devices = parse_sim("4xL40S")[0].devices
    size = devices[1].memory_bytes if milli == 1000 else 8 << 30
    return AllocationView(
        pool="pool",
        allocation="al-1",
        generation=5,
        job="job-1",
        tenant="team",
        sharing="fixed",
        granted=(GrantedDevice(devices[1], milli, size),),
        node_devices=devices,
        seat=JobSeat(uid=os.getuid(), gid=os.getgid(), own_pool=os.getuid() != 0),
        fence=fence,
        machine=Path("/sim"),
    )


def describe_no_card() -> AllocationView:
    """An allocation without a card, on a node of simulated cards."""
    return replace(describe_simulated(300), granted=(), machine=None)


def resize_view(view: AllocationView) -> AllocationView:
    """The same allocation, later, with another size."""
    granted = tuple(replace(one, gpu_milli=450, memory_bytes=3 << 30) for one in view.granted)
    return replace(view, generation=view.generation + 1, granted=granted)


def list_calls(mechanism: Mechanism, view: AllocationView, state_dir: Path) -> dict[str, Call]:
    """Return the verbs of a mechanism on one allocation."""
    return {
        "prepare": partial(mechanism.prepare, view, state_dir),
        "resize": partial(mechanism.resize, resize_view(view), state_dir),
        "unprepare": partial(mechanism.unprepare, view.allocation, LATER, state_dir),
    }


def find_problem(mechanism: Mechanism, state_dir: Path) -> str:
    """Return what the mechanism observes of the allocation, or that it is not on record."""
    seen = mechanism.observe(state_dir).get("al-1")
    return "it is not on record" if seen is None else seen.problem


def read_files(folder: Path) -> World:
    """Read all files; the directory of notes may stay when it is empty."""
    return {name: text for name, text in read_tree(folder).items() if name != "state/prepared"}


def make_simulated(name: str, describe: Callable[[], AllocationView]) -> RigBuilder:
    """Return the builder of a mechanism's rig on simulated cards."""

    @contextmanager
    def build(folder: Path) -> Iterator[KillRig]:
        if name == "fence" and (find_templates() is None or find_simulated_libraries() is None):
            raise RigAbsent("gpupool-native is installed without its fence libraries")
        mechanism = MECHANISMS[name]
        state_dir = folder / "state"
        yield KillRig(
            list_calls(mechanism, describe(), state_dir),
            partial(read_files, folder),
            made_once=("state",),
            find_problem=partial(find_problem, mechanism, state_dir),
        )

    return build


@contextmanager
def build_mps(folder: Path) -> Iterator[KillRig]:
    """MPS on a host on which daemons start by themselves."""
    mechanism = build_automatic(folder / "host")
    state_dir = folder / "state"

    def read_world() -> World:
        found = dict(read_files(folder))
        # A daemon that ends with its directory leaves the memory of the one that played it.
        return {name: text for name, text in found.items() if not name.endswith(".daemon")}

    yield KillRig(
        list_calls(mechanism, describe_share(), state_dir),
        read_world,
        # The file with the compute mode exists from the first write on.
        made_once=("state", "host/mode-"),
        find_problem=partial(find_problem, mechanism, state_dir),
    )


BUILDERS: dict[str, RigBuilder] = {
    "mechanism whole": make_simulated("whole", partial(describe_simulated, 1000)),
    "mechanism fence": make_simulated("fence", partial(describe_simulated, 300)),
    "mechanism share": make_simulated("share", partial(describe_simulated, 300, fence=False)),
    "mechanism mps": build_mps,
    "mechanism no-card": make_simulated("no-card", describe_no_card),
}
