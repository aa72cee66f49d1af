"""What a card and its driver take beyond what is asked for: a context, and the step of its memory.

A bare context is measured as NVML shows it of this very process. Where NVML cannot tell processes apart (in a pid
namespace of another's making) the card's memory in use, before and after, is taken: right while nobody else is on it.
NVML's functions, structures and "not available" (all bits set) are those of its public header.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import Unavailable
from gpupool.burn.driver import Driver

_NVML: Final = "libnvidia-ml.so.1"
_MIB: Final = 1 << 20
_MOST_PROCESSES: Final = 4096
_UNKNOWN: Final = (1 << 64) - 1


@dataclass(frozen=True)
class Costs:
    """Bytes. `context_bytes` is what NVML shows, `visible_bytes` what the driver shows this program of it.

    `by`: "process" or "card", what NVML was asked for.
    """

    context_bytes: int
    visible_bytes: int
    granule_bytes: int
    by: str


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (("pid", c_uint), ("used", c_ulonglong), ("gpu_instance", c_uint), ("compute_instance", c_uint))


class Nvml:
    """One card as NVML shows it to this process. Raises Unavailable without NVML, or without the card."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(_NVML)
        except OSError as error:
            raise Unavailable(f"no NVML here: {error}", hint="install the driver's libnvidia-ml.so.1") from error
        self._call("nvmlInit_v2")

    def _call(self, name: str, *arguments: Any) -> None:
        result: int = getattr(self._library, name)(*arguments)
        if result:
            raise Unavailable(f"{name} said {result}", hint="nvidia-smi")

    def card(self, uuid: str) -> c_void_p:
        """The card's handle, `uuid` as GPU-xxxxxxxx-..."""
        handle = c_void_p()
        self._call("nvmlDeviceGetHandleByUUID", c_char_p(uuid.encode()), byref(handle))
        return handle

    def used(self, card: c_void_p) -> int:
        """Bytes of the card in use, by whomever."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", card, byref(memory))
        return int(memory.used)

    def process_used(self, card: c_void_p, pid: int) -> int | None:
        """Bytes of the card in use by one process; None where NVML does not say."""
        count, found = c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
        self._call("nvmlDeviceGetComputeRunningProcesses_v3", card, byref(count), found)
        used = [int(one.used) for one in found[: count.value] if one.pid == pid]
        return used[0] if used and used[0] != _UNKNOWN else None


def measure(device: int = 0) -> tuple[Driver, Costs]:
    """Make the first context of this process, on card `device`, and measure. The process must have had none before.

    Raises Unavailable, CudaRefused.
    """
    nvml, uuid = Nvml(), Driver.uuid_of(device)
    card = nvml.card(uuid)
    before = nvml.used(card)
    driver = Driver(device)
    own, whole = nvml.process_used(card, os.getpid()), nvml.used(card) - before
    free, total = driver.memory()
    costs = Costs(whole if own is None else own, total - free, granule(driver), "card" if own is None else "process")
    return driver, costs


def granule(driver: Driver) -> int:
    """The step in which the driver takes memory from the card: what a MiB takes of it that comes out of no older block.

    Smaller allocations share blocks and are no measure; a MiB may fit into one that the driver has already, so the
    first that takes anything shows the step.
    """
    free, _ = driver.memory()
    pointers = [driver.allocate(_MIB)]
    while driver.memory()[0] == free:
        pointers.append(driver.allocate(_MIB))
    taken = free - driver.memory()[0]
    for pointer in pointers:
        driver.free(pointer)
    return taken
