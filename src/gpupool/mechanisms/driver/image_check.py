"""Installs the program that checks an image before a container with a fenced share starts.

The fence's libraries need the version of glibc that they were built for, so an image with an older
one cannot run them. Only the container runtime sees an image between unpacking and start. So a
copy of the program lies below the agent's state, where the host can run it whatever image the agent
is in.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import Final

from gpupool.base.errors import ImageRejection, NativeMissing
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates

#: The program's file below the agent's state.
PLACE: Final = Path("hook") / "gpupool-hook"
#: A version of glibc as an entry of a string table: between two NULs, or with a third number.
_VERSION: Final = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])")
_INSTALLING: Final = threading.Lock()


def build_image_check(state_dir: Path, *, simulated: bool) -> tuple[str, ...]:
    """Install the program and return the command that checks an image. Idempotent.

    Raises:
        NativeMissing: gpupool-native has no such program.
    """
    folders = [find_templates()]
    if simulated:
        folders.append(find_simulated_libraries())
    libraries: list[Path] = []
    for folder in folders:
        if folder is not None:
            libraries += folder.glob("lib*.so.*")
    major, minor = max(map(find_needed_glibc, libraries))
    return str(_install_program(state_dir)), ImageRejection.code, f"{major}.{minor}"


@cache
def find_needed_glibc(library: Path) -> tuple[int, int]:
    """Return the newest version of glibc that the library's string table names."""
    found = _VERSION.findall(library.read_bytes())
    return max(((int(major), int(minor)) for major, minor in found), default=(2, 0))


def _install_program(state_dir: Path) -> Path:
    # Replaced as a whole, and only if it differs: a runtime may be about to run it.
    source = _find_program()
    target = state_dir / PLACE
    # Containers start in several threads, and all would write the same new file.
    with _INSTALLING:
        if not target.exists() or not filecmp.cmp(source, target):
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_suffix(".new")
            shutil.copy2(source, new)
            new.chmod(0o755)
            new.replace(target)
    return target


def _find_program() -> Path:
    from gpupool_native import hook_path

    if not hook_path().exists():
        raise NativeMissing(
            "gpupool-native has no program that looks at images", hint="reinstall gpupool-native"
        )
    return hook_path()
