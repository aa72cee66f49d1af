"""Measures what a card takes beyond the memory that a program asks for.

That is the memory of a bare context, and the step in which the driver takes memory from the card.
NVML shows the context of this very process. Inside a pid namespace NVML cannot tell processes apart;
there the growth of the card's memory in use is taken, which is right while no other process uses
the card. NVML's functions, structures and values are those of its public header.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import ServiceUnavailable
from gpupool.burn.driver import CudaDriver

_NVML: Final = "libnvidia-ml.so.1"
#: Bytes. Smaller allocations share a block of the driver, so their size does not show its step.
_MIB: Final = 1 << 20
#: Entries of the array for NVML; with fewer than there are processes the call fails.
_MOST_PROCESSES: Final = 4096
#: NVML_VALUE_NOT_AVAILABLE: all bits of an unsigned 64-bit field.
_UNKNOWN: Final = (1 << 64) - 1


@dataclass(frozen=True)
class ContextCosts:
    """Memory that one context takes of a card.

    Attributes:
        context_bytes: memory of the context as NVML shows it.
        visible_bytes: memory that the driver shows this program as used.
        granule_bytes: step in which the driver takes memory from the card.
        by: what NVML answered for: "process" or "card".
    """

    context_bytes: int
    visible_bytes: int
    granule_bytes: int
    by: str


class _NvmlMemory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _NvmlProcess(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class NvmlLibrary:
    """NVML as this process sees it.

    Every method raises Unavailable where NVML or the card is missing.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(_NVML)
        except OSError as error:
            raise ServiceUnavailable(
                f"no NVML here: {error}", hint="install the driver's libnvidia-ml.so.1"
            ) from error
        self._call_function("nvmlInit_v2")

    def _call_function(self, name: str, *arguments: Any) -> None:
        result: int = getattr(self._library, name)(*arguments)
        if result:
            raise ServiceUnavailable(f"{name} said {result}", hint="nvidia-smi")

    def find_card(self, uuid: str) -> c_void_p:
        """Return the handle of a card; `uuid` as GPU-xxxxxxxx-..."""
        handle = c_void_p()
        self._call_function("nvmlDeviceGetHandleByUUID", c_char_p(uuid.encode()), byref(handle))
        return handle

    def read_used_bytes(self, card: c_void_p) -> int:
        """Return the bytes of the card that all processes together use."""
        memory = _NvmlMemory()
        self._call_function("nvmlDeviceGetMemoryInfo", card, byref(memory))
        return int(memory.used)

    def read_process_bytes(self, card: c_void_p, pid: int) -> int | None:
        """Return the bytes of the card that one process uses; None where NVML does not say."""
        # In: how many entries the array has. Out: how many NVML wrote.
        count = c_uint(_MOST_PROCESSES)
        found = (_NvmlProcess * _MOST_PROCESSES)()
        self._call_function("nvmlDeviceGetComputeRunningProcesses_v3", card, byref(count), found)
        used = [int(one.used) for one in found[: count.value] if one.pid == pid]
        return used[0] if used and used[0] != _UNKNOWN else None


def measure_costs(device: int = 0) -> tuple[CudaDriver, ContextCosts]:
    """Create the first context of this process on card `device` and measure what it takes.

    The process must not have had a context before: a second context shares most of the first.

    Raises:
        ServiceUnavailable: without driver, NVML or the card.
        CudaCallFailure: a call of the driver failed.
    """
    nvml = NvmlLibrary()
    uuid = CudaDriver.read_uuid(device)
    card = nvml.find_card(uuid)
    before = nvml.read_used_bytes(card)
    driver = CudaDriver(device)
    own = nvml.read_process_bytes(card, os.getpid())
    whole = nvml.read_used_bytes(card) - before
    free, total = driver.read_memory()
    costs = ContextCosts(
        whole if own is None else own,
        total - free,
        measure_granule(driver),
        "card" if own is None else "process",
    )
    return driver, costs


def measure_granule(driver: CudaDriver) -> int:
    """Return the step, in bytes, in which the driver takes memory from the card."""
    free, _ = driver.read_memory()
    # A MiB may fit into a block that the driver already has. The first allocation that lowers the
    # free memory therefore shows the size of a new block.
    pointers = [driver.allocate_memory(_MIB)]
    while driver.read_memory()[0] == free:
        pointers.append(driver.allocate_memory(_MIB))
    taken = free - driver.read_memory()[0]
    for pointer in pointers:
        driver.free_memory(pointer)
    return taken
