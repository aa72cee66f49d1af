"""Finds the files of the CUDA driver and of NVML that this host's loader would map."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

CUDA = "libcuda.so.1"
NVML = "libnvidia-ml.so.1"
NAMES: Final = (CUDA, NVML)
LOADER_CACHE: Final = Path("/etc/ld.so.cache")
#: Directories of distributions, toolkits, WSL and NixOS, searched after the loader's cache.
_PLACES: Final = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib64/nvidia",
    "/usr/lib/nvidia",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/opt/nvidia/lib64",
    "/run/opengl-driver/lib",
)


@dataclass(frozen=True)
class DriverFiles:
    """The files behind each library name, the one to use first; a name without a file is absent."""

    files: Mapping[str, tuple[Path, ...]]


def find_installed_driver(
    places: Iterable[str] = _PLACES, cache: Path | None = LOADER_CACHE, root: Path = Path("/")
) -> DriverFiles:
    """Return every file of this architecture behind the driver's names, in the loader's order.

    Args:
        root: where this process sees the root filesystem with the driver.
    """
    known = root / cache.relative_to("/") if cache is not None and cache.is_absolute() else cache
    cached = [str(Path(one).parent) for one in _list_cached_paths(known)]
    directories = [root / one.lstrip("/") for one in (*cached, *places)]
    found = {}
    for name in NAMES:
        files = _resolve_files([directory / name for directory in directories])
        if files:
            found[name] = files
    return DriverFiles(found)


def _list_cached_paths(cache: Path | None) -> tuple[str, ...]:
    """Return the paths with the driver's names in the loader's cache (ldconfig(8))."""
    if cache is None:
        return ()
    try:
        state = cache.stat()
        return _read_loader_cache(cache, (state.st_ino, state.st_mtime_ns, state.st_size))
    except OSError:
        return ()


@lru_cache(maxsize=8)
def _read_loader_cache(cache: Path, _version: tuple[int, int, int]) -> tuple[str, ...]:
    """Read one version of the cache: every start of a job looks, and ldconfig(8) seldom writes."""
    names = list(map(os.fsencode, NAMES))
    paths = list[str]()
    # The cache ends each string with a NUL, so its tables need not be parsed.
    for one in cache.read_bytes().split(b"\0"):
        if one.startswith(b"/") and one.rpartition(b"/")[2] in names:
            paths.append(os.fsdecode(one))
    return tuple(paths)


def _resolve_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    files: dict[Path, None] = {}
    for path in paths:
        real = path.resolve()
        if real.is_file() and _is_our_kind(real):
            files[real] = None
    return tuple(files)


def _is_our_kind(path: Path) -> bool:
    """Whether a file is ELF of this process's class and machine, as the stand-ins are.

    elf(5): the class is byte 4, the machine bytes 18 and 19.
    """
    with open("/proc/self/exe", "rb") as own, path.open("rb") as file:
        return _read_elf_kind(own.read(20)) == _read_elf_kind(file.read(20)) != b""


def _read_elf_kind(head: bytes) -> bytes:
    return head[4:6] + head[18:20] if head[:4] == b"\x7fELF" else b""
