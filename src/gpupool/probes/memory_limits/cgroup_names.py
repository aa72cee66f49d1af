"""Names a cgroup as the lines of /proc/PID/cgroup do, from its directory.

`:/job` is a name in version 2, `memory:/job` one in version 1, where the first controller of the
hierarchy counts. The simulated driver does the same in native/simgpu/model/machine/limit_groups.c.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gpupool.base.files.kernel_files import read_kernel_lines

#: Options of a version 1 mount that are no controllers (cgroups(7), `mount` lines of the kernel).
_FLAGS: Final = frozenset(("rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode"))


def find_group_name(directory: Path, proc_root: Path = Path("/proc")) -> str | None:
    """Return a cgroup's name, also of one that is gone; None outside every hierarchy.

    The root of a hierarchy has no name either: a driver has no limits for it.
    """
    path = os.path.realpath(directory)
    deepest = ""
    name = None
    for line in read_kernel_lines(proc_root / "self/mountinfo"):
        left, _, right = line.partition(" - ")
        root, point = left.split(" ")[3:5]
        kind, _, options = right.split(" ", 2)
        inside = path == point or path.startswith(f"{point.rstrip('/')}/")
        if kind in ("cgroup", "cgroup2") and inside and len(point) >= len(deepest):
            deepest = point
            relative = ("" if root == "/" else root) + path.removeprefix(point)
            controller = "" if kind == "cgroup2" else _find_controller(options)
            name = f"{controller}:{relative}" if relative else None
    return name if name is not None and "\n" not in name else None


def _find_controller(options: str) -> str:
    for word in options.split(","):
        if word not in _FLAGS and not word.startswith("release_agent="):
            return word
    return ""
