"""What a job on a simulated node needs besides its share: the file that stands for the cards, and their libraries.

The file is shared between all jobs of the pool, each of which may write all of it: it plays the hardware, and is
never a boundary. Jobs with whole cards get the simulated driver under its own name; a fenced job's is `fence`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, Mount
from gpupool.mechanisms.driver_files import Libraries, installed_driver, simulated_libraries

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


def simulated_sight(view: AllocationView, state_dir: Path) -> MachineSight:
    """The cards' file and the simulated driver itself, for a job without a fence; nothing on a real node."""
    machine = machine_sight(view)
    source = simulated_libraries()
    if view.machine is None or source is None:
        return machine
    sight = Libraries(state_dir, view.seat.base, installed_driver(), source).bare()
    return MachineSight((*machine.mounts, *sight.mounts), sight.library_path, machine.unmounted)
