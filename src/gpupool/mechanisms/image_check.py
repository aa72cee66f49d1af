"""The program that looks at an image before a container with a fenced share begins, and what it is to ask for.

The fence takes the names of the driver's libraries, so no program has to do anything for it; but its own are built for
glibc, of a version that stands in them. An image is seen by the runtime alone, between its unpacking and its start: so
a copy of the program lies below the agent's state, where the host can run it, whatever image the agent itself is in.
"""

from __future__ import annotations

import filecmp
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Final

from gpupool.base.errors import ImageRefused, NativeMissing
from gpupool.mechanisms.driver_files import simulated_libraries, templates

PLACE: Final = Path("hook") / "gpupool-hook"
_VERSION: Final = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])")


def image_check(state_dir: Path, *, simulated: bool) -> tuple[str, ...]:
    """The command, its program put in place. Raises NativeMissing."""
    places = [templates(), *([simulated_libraries()] if simulated else [])]
    major, minor = max(needed_glibc(library) for folder in places if folder for library in folder.glob("lib*.so.*"))
    return str(_installed(state_dir)), ImageRefused.code, f"{major}.{minor}"


@cache
def needed_glibc(library: Path) -> tuple[int, int]:
    """The newest version of glibc that the library names (its string table holds them, each ended by a NUL)."""
    found = _VERSION.findall(library.read_bytes())
    return max(((int(major), int(minor)) for major, minor in found), default=(2, 0))


def _installed(state_dir: Path) -> Path:
    """Replaced as a whole where it is not this gpupool's: a runtime may be about to run it."""
    source, target = _program(), state_dir / PLACE
    if not target.exists() or not filecmp.cmp(source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_suffix(".new")
        shutil.copy2(source, new)
        new.chmod(0o755)
        new.replace(target)
    return target


def _program() -> Path:
    from gpupool_native import hook_path

    if not hook_path().exists():
        raise NativeMissing("gpupool-native has no program that looks at images", hint="reinstall gpupool-native")
    return hook_path()
