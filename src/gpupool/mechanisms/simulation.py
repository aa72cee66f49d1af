"""What a job needs of the driver besides its share. On a simulated node: the cards' file, and their libraries.

The file is shared between all jobs of the pool, each of which may write all of it: it plays the hardware, and is
never a boundary. Jobs with whole cards get the simulated driver under its own name; a fenced job's is `fence`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.mechanisms.container_files import mounts_of
from gpupool.mechanisms.contract import AllocationView, Mount
from gpupool.mechanisms.driver_files import Driver, Libraries, Sight, installed_driver, simulated_libraries

VARIABLE = "GPUPOOL_SIMGPU"


@dataclass(frozen=True)
class MachineSight:
    """`unmounted` is the environment for a job for which nothing could be mounted."""

    mounts: tuple[Mount, ...] = ()
    library_path: tuple[str, ...] = ()
    unmounted: Mapping[str, str] = field(default_factory=dict)


def machine_sight(view: AllocationView) -> MachineSight:
    """The simulated cards' file at its place; nothing on a real node."""
    if view.machine is None:
        return MachineSight()
    mount = Mount(view.machine, f"{view.seat.base}/simgpu", writable=True)
    return MachineSight((mount,), (), {VARIABLE: str(view.machine / "machine")})


def bare_sight(view: AllocationView, state_dir: Path) -> MachineSight:
    """The cards' file and the simulated driver itself, for a job without a fence. Of a real node the driver's own
    files, for a container: other jobs see them anyway.
    """
    machine = machine_sight(view)
    source = simulated_libraries() if view.machine is not None else None
    if view.seat.container:
        return MachineSight((*machine.mounts, *container_sight(view, state_dir, fenced=False).mounts))
    if source is None:
        return machine
    sight = Libraries(state_dir, view.seat.base, installed_driver(), source).bare()
    return MachineSight((*machine.mounts, *sight.mounts), sight.library_path, machine.unmounted)


def container_sight(view: AllocationView, state_dir: Path, *, fenced: bool) -> Sight:
    """The driver's libraries in a container, the stand-ins in place of those that they stand in for."""
    if not any(grant.device.vendor == "nvidia" for grant in view.granted):
        return Sight((), (), "the image's own driver")
    source = simulated_libraries() if view.machine is not None else None
    driver = installed_driver(root=view.seat.driver_root) if source is None else Driver({})
    libraries = Libraries(state_dir, view.seat.base, driver, source)
    unseen = libraries.fenced().unclassified if fenced else ()
    mounts = mounts_of(libraries, driver, fenced=fenced, host=view.seat.host, root=view.seat.driver_root)
    return Sight(mounts, (), "put where a container's loader looks", unseen)
