"""Reads and sets the memory limits of NVIDIA's driver through NVML.

Every call raises ProbeSuspended while a step needs NVML closed.
The facts are those of nvml.h (R615) and of NVIDIA's page on MPS memory partitioning: the caller
must be root, the hierarchy version 2, the card not in MIG mode; the root cgroup answers "Not
Supported"; removing a cgroup clears its limits.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import ServiceUnavailable
from gpupool.probes.memory_limits.limiter import NO_LIMIT, MemoryLimit
from gpupool.probes.nvml.driver import NvmlDriver, decode_text

#: Any cgroup: the question is only whether the driver has the call.
_ANY_GROUP: Final = Path("/sys/fs/cgroup")


class DriverLimits:
    """The limits of the installed driver. Loads NVML on first use; thread-safe as NVML is."""

    def __init__(self, driver: NvmlDriver | None = None) -> None:
        self._driver = driver or NvmlDriver()

    def explain_absence(self) -> str:
        with self._driver.gate.hold():
            try:
                self._driver.start()
            except (ServiceUnavailable, ImportError) as error:
                return str(error)
            driver = self._driver
            cards = list(driver.iterate_handles())
            if not cards:
                return "the driver shows no card"
            _, code = self._get_limits(cards[0][1], _ANY_GROUP)
            if code != driver.nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return ""
            version = driver.ask(driver.nvml.nvmlSystemGetDriverVersion) or "unknown"
            return f"the driver is older than R615 (version {decode_text(version)})"

    def read_limit(self, uuid: str, group: Path) -> MemoryLimit | None:
        with self._driver.gate.hold():
            handle, problem = self._find_card(uuid)
            if problem:
                return None
            return self._get_limits(handle, group)[0]

    def set_limit(self, uuid: str, group: Path, limit: MemoryLimit) -> str:
        with self._driver.gate.hold():
            handle, problem = self._find_card(uuid)
            if problem:
                return problem
            nvml = self._driver.nvml
            limits = nvml.c_nvmlSetMemoryLimits_v1_t()
            limits.nameSpace = os.fsencode(group)
            limits.softLimit = limit.soft_bytes
            limits.hardLimit = limit.hard_bytes
            try:
                nvml.nvmlDeviceSetMemoryLimits_v1(handle, limits)
            except nvml.NVMLError as error:
                return f"the driver refuses a memory limit for {group}: {error}"
            return ""

    def clear_limit(self, uuid: str, group: Path) -> str:
        if not group.is_dir():
            return ""  # the driver forgot the limits with the cgroup
        return self.set_limit(uuid, group, MemoryLimit(0, NO_LIMIT))

    def _find_card(self, uuid: str) -> tuple[Any, str]:
        """Return (handle, ""), or (None, why there is none)."""
        try:
            self._driver.start()
        except (ServiceUnavailable, ImportError) as error:
            return None, str(error)
        handle = self._driver.ask(self._driver.nvml.nvmlDeviceGetHandleByUUID, uuid.encode())
        return handle, "" if handle is not None else f"the driver does not know card {uuid}"

    def _get_limits(self, handle: Any, group: Path) -> tuple[MemoryLimit | None, int | None]:
        nvml = self._driver.nvml
        if not hasattr(nvml, "nvmlDeviceGetMemoryLimits_v1"):
            return None, int(nvml.NVML_ERROR_FUNCTION_NOT_FOUND)  # a binding older than R615
        limits = nvml.c_nvmlGetMemoryLimits_v1_t()
        limits.nameSpace = os.fsencode(group)
        _, code = self._driver.try_call(nvml.nvmlDeviceGetMemoryLimits_v1, handle, limits)
        if code == nvml.NVML_ERROR_NOT_FOUND:
            return MemoryLimit(), None  # a cgroup without limits
        if code is not None:
            return None, code
        return MemoryLimit(limits.softLimit, limits.hardLimit, limits.currentUsed), None
