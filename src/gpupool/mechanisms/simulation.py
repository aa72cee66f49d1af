"""Plans the mounts of the driver's libraries and, on a simulated node, of the cards' file.

All jobs of the pool share that file, and each may write all of it: it plays the hardware and is
never a boundary. Jobs with whole cards get the simulated driver under its own name; `fence` plans
the libraries of fenced jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, HostMount
from gpupool.mechanisms.driver.container_files import list_mounts
from gpupool.mechanisms.driver.driver_files import (
    DriverLibraries,
    LibraryMounts,
    find_simulated_libraries,
)
from gpupool.mechanisms.driver.installed_driver import DriverFiles, find_installed_driver

#: Environment variable by which the simulated driver finds the cards' file without a mount.
VARIABLE = "GPUPOOL_SIMGPU"


@dataclass(frozen=True)
class MachineMounts:
    """Mounts for a job; `unmounted` is its environment where nothing can be mounted."""

    mounts: tuple[HostMount, ...] = ()
    library_path: tuple[str, ...] = ()
    unmounted: Mapping[str, str] = field(default_factory=dict)


def plan_machine_mounts(view: AllocationView) -> MachineMounts:
    """Plan the simulated cards' file; nothing on a real node."""
    if view.machine is None:
        return MachineMounts()
    mount = HostMount(view.machine, f"{view.seat.base}/simgpu", writable=True)
    return MachineMounts((mount,), (), {VARIABLE: str(view.machine / "machine")})


def plan_bare_mounts(view: AllocationView, state_dir: Path) -> MachineMounts:
    """Plan the libraries of a job without a fence.

    On a simulated node that is the simulated driver with the cards' file. On a real node only a
    container needs the driver's files: other jobs see them anyway.
    """
    machine = plan_machine_mounts(view)
    source = find_simulated_libraries() if view.machine is not None else None
    if view.seat.container:
        return MachineMounts(
            (*machine.mounts, *plan_container_mounts(view, state_dir, fenced=False).mounts)
        )
    if source is None:
        return machine
    sight = DriverLibraries(state_dir, view.seat.base, find_installed_driver(), source).plan_bare()
    return MachineMounts((*machine.mounts, *sight.mounts), sight.library_path, machine.unmounted)


def plan_container_mounts(view: AllocationView, state_dir: Path, *, fenced: bool) -> LibraryMounts:
    """Plan the driver's libraries in a container; with `fenced`, the stand-ins in their place."""
    if not any(grant.device.vendor == "nvidia" for grant in view.granted):
        return LibraryMounts((), (), "the image's own driver")
    source = find_simulated_libraries() if view.machine is not None else None
    driver = (
        find_installed_driver(root=view.seat.driver_root) if source is None else DriverFiles({})
    )
    libraries = DriverLibraries(state_dir, view.seat.base, driver, source)
    unseen = libraries.plan_fenced().unclassified if fenced else ()
    mounts = list_mounts(
        libraries, driver, fenced=fenced, host=view.seat.host, root=view.seat.driver_root
    )
    return LibraryMounts(mounts, (), "put where a container's loader looks", unseen)
