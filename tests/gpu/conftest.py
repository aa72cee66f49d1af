"""A pool on this machine's real card, for tests that mean something only there; elsewhere they skip
and say why."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool


def why_not() -> str:
    """Why there is no real card to test on; empty when there is one."""
    if not Path("/proc/driver/nvidia/version").exists():
        return "no NVIDIA kernel driver here"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no CUDA driver here: {error}"
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the CUDA driver finds no card"
    return ""


class RealCardPool(RealPool):
    """A pool that owns this machine's first card."""

    def __enter__(self) -> RealCardPool:
        self.up()
        self.do("adopt", "0")
        return self

    @property
    def card(self) -> dict[str, object]:
        found: dict[str, object] = self.json("show", self.json("gpus")[0]["name"])
        return found


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCardPool]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with RealCardPool(tmp_path_factory.mktemp("gpu") / "pool") as running:
        yield running
