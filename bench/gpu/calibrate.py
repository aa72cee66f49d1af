"""What a card and its driver cost, measured without a fence: the context, the granule, a launch, an event.

The figures go to `calibration.json` of an agent's state directory, which the fence charges by, and are the defaults
of a simulated card of that model. Needs the card for itself.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpupool.burn.driver import Driver
from gpupool.model.catalogue import canonical_model

MIB = 1 << 20


def calibrate(launches: Path) -> dict[str, Any]:
    """`{"version": 1, "cards": {MODEL: figures}}`. `launches` is bench/gpu/launches.c, compiled. Raises Unavailable."""
    before = card_memory_used()
    driver = Driver()
    context = card_memory_used() - before
    identity = driver.identity()
    figures = {
        "context_bytes": context,
        "granule_bytes": _granule(driver),
        "total_bytes": identity["memory_bytes"],
        "driver_version": identity["driver_version"],
        **json.loads(subprocess.run([launches], capture_output=True, text=True, check=True).stdout),
    }
    driver.close()
    return {"version": 1, "cards": {canonical_model(identity["card"]): figures}}


def _granule(driver: Driver) -> int:
    """What one byte takes of the card: the step in which the driver asks the card for memory."""
    free, _ = driver.memory()
    pointers = [driver.allocate(1)]
    while driver.memory()[0] == free:  # small allocations may come out of a block that the driver has already
        pointers.append(driver.allocate(MIB))
    taken = free - driver.memory()[0]
    for pointer in pointers:
        driver.free(pointer)
    return taken


def card_memory_used() -> int:
    """Of the first card, as NVML says: what a context takes is not in the context's own view."""
    library = ctypes.CDLL("libnvidia-ml.so.1")

    class Memory(ctypes.Structure):
        _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))

    handle, memory = ctypes.c_void_p(), Memory()
    _must("nvmlInit_v2", library.nvmlInit_v2)
    _must("nvmlDeviceGetHandleByIndex_v2", lambda: library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)))
    _must("nvmlDeviceGetMemoryInfo", lambda: library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)))
    return int(memory.used)


def _must(name: str, call: Callable[[], int]) -> None:
    result = call()
    if result:
        raise RuntimeError(f"{name} said {result}")
