"""Reads a card's own error counters as health."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.model.device import DeviceHealth
from gpupool.probes.nvml.driver import NvmlDriver


def read_counters(driver: NvmlDriver, handle: Any) -> Iterator[tuple[DeviceHealth, str]]:
    nvml = driver.nvml
    _, error = driver.try_call(nvml.nvmlDeviceGetMemoryInfo, handle)
    if error == nvml.NVML_ERROR_GPU_IS_LOST:
        yield DeviceHealth.FAILED, "the driver has lost the card"
    elif error == nvml.NVML_ERROR_RESET_REQUIRED:
        yield DeviceHealth.FAILED, "the card must be reset"
    elif error is not None:
        yield DeviceHealth.UNKNOWN, "the driver does not tell the state of the card"
    uncorrected = driver.ask(
        nvml.nvmlDeviceGetTotalEccErrors,
        handle,
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_VOLATILE_ECC,
    )
    if uncorrected:
        yield (
            DeviceHealth.WARNING,
            f"{uncorrected} uncorrected memory errors since the driver was loaded",
        )
    _, _, pending, failure = driver.ask(nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    if failure:
        yield DeviceHealth.FAILED, "a memory row could not be remapped: the card needs repair"
    if pending:
        yield DeviceHealth.WARNING, "a memory row waits to be remapped: reset the card"
    if driver.ask(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle):
        yield DeviceHealth.WARNING, "memory pages wait to be retired: reset the card"
