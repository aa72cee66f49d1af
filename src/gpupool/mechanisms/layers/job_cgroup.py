"""Makes a job's cgroup before its supervisor starts, since limits are set on what exists.

The supervisor uses a cgroup that is there already. Its parent is the pool's, which the agent marks
and removes. Knows no limit.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_MODE: Final = 0o755
#: The kernel's controller of device memory, since Linux 6.14.
DEVICE_MEMORY: Final = "dmem"


def is_version_2(group: Path) -> bool:
    """Whether a cgroup, which may not exist yet, lies in a hierarchy of version 2."""
    for above in group.parents:
        if above.is_dir():
            return (above / "cgroup.controllers").exists()
    return False


def choose_group(groups: Sequence[str]) -> Path | None:
    """Return the job's cgroup of version 2, the first one where none is; None without any."""
    paths = [Path(group) for group in groups]
    for path in paths:
        if is_version_2(path):
            return path
    return paths[0] if paths else None


def make_group(group: Path, controller: str = DEVICE_MEMORY) -> None:
    """Make a job's cgroup and its parent, and let the kernel count device memory in it. Idempotent.

    Where the kernel does not count device memory, the driver does that itself.

    Args:
        group: The job's cgroup, in the pool's.
        controller: What is enabled from above the pool's cgroup down to the job's.

    Raises:
        OSError: the cgroup cannot be made.
    """
    group.parent.mkdir(mode=_MODE, exist_ok=True)
    for above in (group.parent.parent, group.parent):
        if controller in _read_words(above / "cgroup.controllers"):
            _enable_controller(above / "cgroup.subtree_control", controller)
    group.mkdir(mode=_MODE, exist_ok=True)


def remove_group(group: Path) -> None:
    """Remove a job's cgroup unless a process or another cgroup is in it. Idempotent."""
    try:
        group.rmdir()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []


def _enable_controller(control: Path, controller: str) -> None:
    if controller not in _read_words(control):
        # EBUSY where the cgroup has processes: then the driver answers that it cannot set limits.
        with suppress(OSError):
            control.write_text(f"+{controller}", encoding="ascii")
