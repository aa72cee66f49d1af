"""One CUDA runtime library, asked for its first words: `python -m gpupool.burn.runtime PATH`.

The vendor's runtime checks its driver when it is first used, and says 103 (`cudaErrorSoftwareValidityNotEstablished`)
when something between them is not what it expects. Functions and numbers are those of the public `driver_types.h`.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

NOT_ESTABLISHED: Final = 103
NAMES: Final = ("libcudart.so.12", "libcudart.so.13")
_IN_SITE: Final = ("nvidia/cuda_runtime/lib", "nvidia/cu12/lib", "nvidia/cu13/lib")
"""Where the vendor's packages put it below site-packages; as NVIDIA's wheels of 12.x and 13.x are laid out."""


def found(environ: Mapping[str, str], sites: Iterable[str]) -> list[str]:
    """The runtimes that a program of the caller's would find: LD_LIBRARY_PATH, the loader's cache, then `sites`.

    Of each name the first. `sites` are site-packages directories; those of VIRTUAL_ENV and CONDA_PREFIX come before.
    """
    chosen: dict[str, str] = {}
    for directory in _places(environ, sites):
        for name in NAMES:
            path = directory / name
            if name not in chosen and path.is_file():
                chosen[name] = str(path)
    for name in _cached():
        chosen.setdefault(name, name)
    return [chosen[name] for name in sorted(chosen)]


def _places(environ: Mapping[str, str], sites: Iterable[str]) -> Iterator[Path]:
    for part in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if part:
            yield Path(part)
    roots = [environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    theirs = [str(site) for root in roots for site in Path(root).glob("lib/python3*/site-packages")]
    for site in (*theirs, *sites):
        for below in _IN_SITE:
            yield Path(site, below)
    for root in roots:
        yield Path(root, "lib")


def _cached() -> list[str]:
    """Names that the system's loader knows, by ldconfig(8)."""
    try:
        done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return []  # a system without it, such as musl's, has no cache either
    known = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    return [name for name in NAMES if name in known]


def ask(path: str) -> dict[str, Any]:
    """What the runtime at `path` says to its first calls: results, the version, the cards it counts.

    `cudaFree(0)` makes the context, after which nothing of the start is left undone. Raises OSError when it cannot be
    loaded, AttributeError when it is no such library.
    """
    runtime = ctypes.CDLL(path)
    version, count = ctypes.c_int(), ctypes.c_int()
    results = {
        "cudaRuntimeGetVersion": runtime.cudaRuntimeGetVersion(ctypes.byref(version)),
        "cudaGetDeviceCount": runtime.cudaGetDeviceCount(ctypes.byref(count)),
        "cudaFree": runtime.cudaFree(ctypes.c_void_p(None)),
    }
    return {"results": results, "version": version.value, "cards": count.value}


def main(words: list[str]) -> int:
    """One line of JSON: what `ask` says, or that the library cannot be loaded."""
    (path,) = words
    try:
        said = ask(path)
    except (OSError, AttributeError) as error:
        said = {"problem": str(error)}
    print(json.dumps({"kind": "runtime", "path": path, "pid": os.getpid(), **said}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
