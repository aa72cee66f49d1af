"""Loads NVML through pynvml and turns its errors into "cannot say": the only door to pynvml.

pynvml and the library are loaded on first use, so importing this package costs nothing on a machine
without cards.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from gpupool.base.errors import ServiceUnavailable

#: Errors of NVML whose own text does not tell what to do.
_UNHELPFUL = {
    "LIBRARY_NOT_FOUND": "libnvidia-ml.so.1 is not here: the NVIDIA driver is not installed on this machine",
    "DRIVER_NOT_LOADED": "the NVIDIA driver is installed but its kernel module is not loaded (try: modprobe nvidia)",
    "LIB_RM_VERSION_MISMATCH": "the NVIDIA driver was updated while loaded: reboot, or unload and load its modules",
    # A container without the device nodes gets this error.
    "NO_PERMISSION": "no permission to talk to the NVIDIA driver (are the /dev/nvidia* nodes visible here?)",
}


class NvmlDriver:
    """The loaded library, once `start` has succeeded. Calls may come from several threads."""

    def __init__(self) -> None:
        self.nvml: Any = None

    def start(self) -> None:
        if self.nvml is not None:
            return
        nvml = importlib.import_module("pynvml")
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as problem:
            raise ServiceUnavailable(_explain_start_problem(nvml, problem)) from problem
        self.nvml = nvml

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the driver's answer, None for every kind of "cannot say"."""
        answer, _ = self.try_call(call, *arguments)
        return answer

    def try_call(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, int | None]:
        """Return (answer, None), or (None, the driver's error number)."""
        try:
            return call(*arguments), None
        except self.nvml.NVMLError as problem:
            return None, int(problem.value)
        except self.nvml.NVMLLibraryMismatchError:
            # An older driver has only an older form of this call.
            return None, int(self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def iterate_handles(self) -> Iterator[tuple[int, Any]]:
        for index in range(self.ask(self.nvml.nvmlDeviceGetCount) or 0):
            handle = self.ask(self.nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None and self.read_uuid(handle):
                yield index, handle

    def read_uuid(self, handle: Any) -> str:
        return str(self.ask(self.nvml.nvmlDeviceGetUUID, handle) or "")


def format_pci_address(bus_id: str) -> str:
    """Write an address of NVML, with eight digits of domain and capitals, as the kernel does.

    >>> pci_address("00000000:3B:00.0")
    '0000:3b:00.0'
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest else bus_id.lower()


def _explain_start_problem(nvml: Any, problem: Any) -> str:
    for name, text in _UNHELPFUL.items():
        if getattr(nvml, f"NVML_ERROR_{name}") == problem.value:
            return text
    return f"the NVIDIA driver does not start: {problem}"


def decode_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
