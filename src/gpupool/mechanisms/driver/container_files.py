"""Lists the driver's files that a container needs, and where to mount them.

Each library is mounted where the loaders of Debian, Ubuntu and Red Hat look by default. So no
loader cache of an image is replaced, no hook runs, and an image that names other directories first still
finds the libraries. Files belong to a driver by the version in their names, as in the vendor's own
container toolkit. Imports no allocation.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gpupool.mechanisms.contract import HostMount
from gpupool.mechanisms.driver.driver_files import DriverLibraries
from gpupool.mechanisms.driver.installed_driver import CUDA, DriverFiles

#: Default library directories of Debian and Ubuntu, and of Red Hat.
FOLDERS: Final = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64")
#: Of all cards together: without them no card can be opened.
CONTROLS: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
#: Programs of the driver that a container gets too.
PROGRAMS: Final = ("/usr/bin/nvidia-smi",)
#: Libraries that the driver opens by itself, or that computing programs open beside it.
COMPANIONS: Final = (
    "libcudadebugger",
    "libnvidia-cfg",
    "libnvidia-compiler",
    "libnvidia-gpucomp",
    "libnvidia-nvvm",
    "libnvidia-opencl",
    "libnvidia-pkcs11",
    "libnvidia-ptxjitcompiler",
    "libnvidia-sandboxutils",
    "libnvidia-tileiras",
)


def list_mounts(
    libraries: DriverLibraries,
    driver: DriverFiles,
    *,
    fenced: bool,
    host: Path = Path("/"),
    root: Path = Path("/"),
) -> tuple[HostMount, ...]:
    """Return all mounts of the driver's files; sources are paths of the host.

    Args:
        host: where this process sees the host's root.
        root: where this process sees the root of the driver's files.
    """
    shown = {**_find_companions(driver), **libraries.list_shown(fenced=fenced)}
    found = [*libraries.list_behind(fenced=fenced)]
    for name, path in sorted(shown.items()):
        found += [HostMount(path, f"{folder}/{name}") for folder in FOLDERS]
    if driver.files:
        for name in PROGRAMS:
            path = root / name.lstrip("/")
            if path.is_file():
                found.append(HostMount(path, f"/usr/bin/{path.name}"))
    mounts = []
    for one in found:
        # The runtime mounts from the host's view, this process may be in a container.
        source = _translate_to_host(one.source, host)
        mounts.append(HostMount(source, one.target, one.writable))
    return tuple(mounts)


def list_control_nodes(dev: Path = Path("/")) -> tuple[str, ...]:
    """Return the control nodes that exist."""
    return tuple(node for node in CONTROLS if (dev / node.lstrip("/")).exists())


def _find_companions(driver: DriverFiles) -> Mapping[str, Path]:
    """Return the companions of the driver's own version that lie beside it, by name."""
    files = driver.files.get(CUDA, ())
    return dict(_list_beside(files[0])) if files else {}


def _list_beside(file: Path) -> Iterator[tuple[str, Path]]:
    version = file.name.partition(".so.")[2]
    # Without a version in its name, companions of another driver could not be told apart.
    if "." not in version:
        return
    for path in sorted(file.parent.glob("lib*.so*")):
        real = path.resolve()
        ours = any(path.name.startswith(f"{name}.so") for name in COMPANIONS)
        if ours and real.is_file() and real.name.endswith(f".so.{version}"):
            yield path.name, real


def _translate_to_host(path: Path, host: Path) -> Path:
    return (
        Path("/") / path.relative_to(host)
        if host != Path("/") and path.is_relative_to(host)
        else path
    )
