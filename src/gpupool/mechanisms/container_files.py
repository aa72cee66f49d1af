"""What a container needs of the driver: its root filesystem has none of it, and sees nothing of the host's.

Each library is put where the loaders of Debian, Ubuntu and Red Hat look without being told, so that no loader cache of
an image is replaced, no hook runs, and an image that names other directories first still finds them. Which files belong
to a driver is by its version in their names, as the vendor's own container toolkit tells them. Knows no allocation.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gpupool.mechanisms.contract import Mount
from gpupool.mechanisms.driver_files import CUDA, Driver, Libraries

FOLDERS: Final = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64")
CONTROLS: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
"""Of all cards together: without them no card can be opened."""
PROGRAMS: Final = ("/usr/bin/nvidia-smi",)
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
"""Libraries that the driver opens by itself, or that computing programs open beside it."""


def mounts_of(
    libraries: Libraries, driver: Driver, *, fenced: bool, host: Path = Path("/"), root: Path = Path("/")
) -> tuple[Mount, ...]:
    """Everything to mount. `host` is where this process sees the host's root: sources are as the host names them;
    `root` that of the driver's files.
    """
    shown = {**_companions(driver), **libraries.shown(fenced=fenced)}
    found = [*libraries.behind(fenced=fenced)]
    found += [Mount(path, f"{folder}/{name}") for name, path in sorted(shown.items()) for folder in FOLDERS]
    if driver.files:
        programs = (root / name.lstrip("/") for name in PROGRAMS)
        found += [Mount(path, f"/usr/bin/{path.name}") for path in programs if path.is_file()]
    return tuple(Mount(_on_host(one.source, host), one.target, one.writable) for one in found)


def control_nodes(dev: Path = Path("/")) -> tuple[str, ...]:
    """Those that are there."""
    return tuple(node for node in CONTROLS if (dev / node.lstrip("/")).exists())


def _companions(driver: Driver) -> Mapping[str, Path]:
    """By each of its names a file of the driver's own version, beside the driver."""
    return dict(pair for file in driver.files.get(CUDA, ())[:1] for pair in _beside(file))


def _beside(file: Path) -> Iterator[tuple[str, Path]]:
    version = file.name.partition(".so.")[2]
    if "." not in version:
        return
    for path in sorted(file.parent.glob("lib*.so*")):
        real = path.resolve()
        ours = any(path.name.startswith(f"{name}.so") for name in COMPANIONS)
        if ours and real.is_file() and real.name.endswith(f".so.{version}"):
            yield path.name, real


def _on_host(path: Path, host: Path) -> Path:
    return Path("/") / path.relative_to(host) if host != Path("/") and path.is_relative_to(host) else path
