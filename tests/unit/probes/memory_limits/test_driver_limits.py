"""The limits of NVIDIA's driver through its own binding: over the simulated NVML, and an old one."""

from __future__ import annotations

import _ctypes
import ctypes
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.probes.memory_limits import DriverLimits, MemoryLimit
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.gate import DriverGate
from gpupool.probes.simgpu import SimulatedMachine
from gpupool_native import simgpu_dir
from tests.support.job_cgroups import open_pool_group
from tests.unit.native.simgpu_cuda import GIB, make_machine
from tests.unit.probes.fake_driver import compile_driver


def load_binding(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """nvidia-ml-py over a library; it goes again, since other tests have none."""
    pynvml = importlib.import_module("pynvml")
    loaded = ctypes.CDLL(str(library))
    monkeypatch.setattr(pynvml, "nvmlLib", loaded)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield pynvml
    _ctypes.dlclose(loaded._handle)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_machine(tmp_path)


@pytest.fixture
def new_driver(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("GPUPOOL_SIMGPU", str(path))
    yield from load_binding(simgpu_dir() / "libnvidia-ml.so.1", monkeypatch)


@pytest.fixture
def old_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A driver whose library has no function of R615."""
    folder = tmp_path / "old"
    folder.mkdir()
    library = compile_driver(folder) / "libnvidia-ml.so.1"
    yield from load_binding(library, monkeypatch)


def uuid_of(path: Path) -> str:
    with SimulatedMachine(path) as machine:
        return machine.cards[0].uuid


@pytest.mark.root
def test_a_limit_is_set_read_and_cleared(new_driver: Any, path: Path) -> None:
    limits = DriverLimits(NvmlDriver(DriverGate()))
    assert limits.explain_absence() == ""
    with open_pool_group() as pool:
        group = pool / "job"
        group.mkdir()
        assert limits.read_limit(uuid_of(path), group) == MemoryLimit()
        assert limits.set_limit(uuid_of(path), group, MemoryLimit(0, GIB)) == ""
        assert limits.read_limit(uuid_of(path), group) == MemoryLimit(0, GIB)
        assert limits.clear_limit(uuid_of(path), group) == ""
        assert limits.read_limit(uuid_of(path), group) == MemoryLimit()


def test_what_the_driver_refuses_is_answered_with_its_words(new_driver: Any, path: Path) -> None:
    limits = DriverLimits(NvmlDriver(DriverGate()))
    gone = path.parent / "gone"
    assert "refuses a memory limit" in limits.set_limit(uuid_of(path), gone, MemoryLimit(0, GIB))
    assert limits.read_limit(uuid_of(path), gone) is None
    assert limits.clear_limit(uuid_of(path), gone) == ""
    unknown = "GPU-00000000-0000-0000-0000-000000000000"
    assert limits.set_limit(unknown, gone, MemoryLimit()) == (
        f"the driver does not know card {unknown}"
    )


def test_a_driver_before_r615_is_named_as_such(old_driver: Any, tmp_path: Path) -> None:
    limits = DriverLimits(NvmlDriver(DriverGate()))
    assert limits.explain_absence().startswith("the driver is older than R615 (version ")
    assert limits.read_limit("GPU-00000000-aaaa", tmp_path) is None


def test_a_host_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pynvml = importlib.import_module("pynvml")
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_LoadNvmlLibrary", lambda: _fail(pynvml))
    limits = DriverLimits(NvmlDriver(DriverGate()))
    assert "the NVIDIA driver is not installed" in limits.explain_absence()
    assert limits.read_limit("GPU-0", tmp_path) is None


def _fail(pynvml: Any) -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
