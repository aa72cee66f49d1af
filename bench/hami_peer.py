"""HAMi-core, beside which the fence is measured: its preload library, built by whoever measures,
and how a program runs below it. Nothing of it is part of gpupool; bench/README.md says how to build
it.

This module knows nothing of gpupool.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "GPUPOOL_BENCH_HAMI"
LOCKS = Path(
    "/tmp/vgpulock"
)  # its README: to be created before programs run outside its containers


class PeerMissingError(Exception):
    """There is no library of HAMi-core to compare with; the message says why."""


@dataclass(frozen=True)
class Peer:
    """A built libvgpu.so."""

    library: Path

    def environment(
        self, cache: Path, *, memory_bytes: int = 0, percent: int = 0
    ) -> dict[str, str]:
        """What its README sets for one tenant: limits by variables (0: none), strictly enforced,
        errors logged alone.

        `cache` is the tenant's accounting file; it must be new whenever a limit has changed.
        """
        LOCKS.mkdir(mode=0o777, exist_ok=True)
        own = {
            "LD_PRELOAD": str(self.library),
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(cache),
            "GPU_CORE_UTILIZATION_POLICY": "force",
            "LIBCUDA_LOG_LEVEL": "0",
        }
        if memory_bytes:
            own["CUDA_DEVICE_MEMORY_LIMIT"] = str(memory_bytes)
        if percent:
            own["CUDA_DEVICE_SM_LIMIT"] = str(percent)
        return own

    def told(self) -> str:
        """Which library it was, for the record."""
        return f"HAMi-core, {self.library.name} {hashlib.sha256(self.library.read_bytes()).hexdigest()[:12]}"


def find(environment: Mapping[str, str] = os.environ) -> Peer:
    """The library that GPUPOOL_BENCH_HAMI names. Raises PeerMissingError."""
    named = environment.get(VARIABLE)
    if not named:
        raise PeerMissingError(f"{VARIABLE} names no libvgpu.so")
    library = Path(named).absolute()
    try:
        with library.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise PeerMissingError(f"{VARIABLE}: {library}: {error.strerror}") from error
    if magic != b"\x7fELF":
        raise PeerMissingError(f"{VARIABLE}: {library} is no shared library")
    return Peer(library)
