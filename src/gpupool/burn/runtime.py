"""Runs the self-test of one CUDA runtime library: `python -m gpupool.burn.runtime PATH`.

The vendor's runtime checks its driver at its first call. It returns 103
(`cudaErrorSoftwareValidityNotEstablished`) when something between both is not as it expects.
Functions and numbers are those of the public `driver_types.h`.
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

#: cudaErrorSoftwareValidityNotEstablished of driver_types.h.
NOT_ESTABLISHED: Final = 103
NAMES: Final = ("libcudart.so.12", "libcudart.so.13")
#: Where the vendor's packages put it below site-packages; as NVIDIA's wheels of 12.x and 13.x are
#: laid out.
_IN_SITE: Final = ("nvidia/cuda_runtime/lib", "nvidia/cu12/lib", "nvidia/cu13/lib")


def find_runtimes(environ: Mapping[str, str], sites: Iterable[str]) -> list[str]:
    """Return the runtimes that a program of the caller would find, one of each name.

    Args:
        environ: environment of the caller: LD_LIBRARY_PATH, VIRTUAL_ENV and CONDA_PREFIX count.
        sites: site-packages directories, searched after those of the environment.
    """
    chosen: dict[str, str] = {}
    for directory in _list_directories(environ, sites):
        for name in NAMES:
            path = directory / name
            if name not in chosen and path.is_file():
                chosen[name] = str(path)
    for name in _list_cached_names():
        chosen.setdefault(name, name)
    return [chosen[name] for name in sorted(chosen)]


def _list_directories(environ: Mapping[str, str], sites: Iterable[str]) -> Iterator[Path]:
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


def _list_cached_names() -> list[str]:
    """Return the names that the loader's cache holds, by ldconfig(8)."""
    try:
        done = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=10, check=False
        )
    except OSError:
        return []  # a system without ldconfig, such as one with musl, has no cache either
    known = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    return [name for name in NAMES if name in known]


def call_runtime(path: str) -> dict[str, Any]:
    """Return the results of the first calls to the runtime at `path`, its version and its cards.

    Raises:
        OSError: the library cannot be loaded.
        AttributeError: the library is no CUDA runtime.
    """
    runtime = ctypes.CDLL(path)
    version = ctypes.c_int()
    count = ctypes.c_int()
    results = {
        "cudaRuntimeGetVersion": runtime.cudaRuntimeGetVersion(ctypes.byref(version)),
        "cudaGetDeviceCount": runtime.cudaGetDeviceCount(ctypes.byref(count)),
        # Creates the context, so that the self-test runs to its end.
        "cudaFree": runtime.cudaFree(ctypes.c_void_p(None)),
    }
    return {"results": results, "version": version.value, "cards": count.value}


def main(words: list[str]) -> int:
    """Print one line of JSON: the results, or why the library cannot be loaded."""
    (path,) = words
    try:
        answer = call_runtime(path)
    except (OSError, AttributeError) as error:
        answer = {"problem": str(error)}
    print(json.dumps({"kind": "runtime", "path": path, "pid": os.getpid(), **answer}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
