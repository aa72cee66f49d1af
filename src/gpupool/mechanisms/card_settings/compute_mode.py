"""Reads and writes a card's compute mode: how many programs may use it at a time.

The management library comes first, and `nvidia-smi` where the library does not start. Writing needs
root. The mode is lost at a reboot.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.card_settings.vendor_tool import NvidiaSmi, VendorTool
from gpupool.probes.nvml.compute_modes import NvmlComputeModes


class ComputeMode(StrEnum):
    """The modes, as `nvidia-smi -c` takes them."""

    DEFAULT = "DEFAULT"
    EXCLUSIVE_THREAD = "EXCLUSIVE_THREAD"
    PROHIBITED = "PROHIBITED"
    EXCLUSIVE_PROCESS = "EXCLUSIVE_PROCESS"


#: nvml.h, nvmlComputeMode_t.
_NUMBERS: Final[Mapping[ComputeMode, int]] = MappingProxyType(
    {mode: number for number, mode in enumerate(ComputeMode)}
)


class ComputeModeControl(Protocol):
    """Reads and writes the compute mode of a card by its uuid. Raises ServiceUnavailable."""

    def read_mode(self, uuid: str) -> ComputeMode: ...

    def write_mode(self, uuid: str, mode: ComputeMode) -> None:
        """Set the mode and read it back: success without effect is known of this driver."""
        ...


class DriverComputeModes:
    """The compute modes of this host's cards. Thread-safe."""

    def __init__(
        self, library: NvmlComputeModes | None = None, tool: VendorTool | None = None
    ) -> None:
        self._library = library or NvmlComputeModes()
        self._tool = tool or NvidiaSmi()

    def read_mode(self, uuid: str) -> ComputeMode:
        number = self._library.read_mode(uuid)
        if number is not None:
            for mode, known in _NUMBERS.items():
                if known == number:
                    return mode
        answer = self._tool.run("-i", uuid, "--query-gpu=compute_mode", "--format=csv,noheader")
        try:
            return ComputeMode(answer.text.upper())
        except ValueError:
            raise ServiceUnavailable(
                f"The compute mode of card {uuid} cannot be read: {answer.text or 'no output'}",
                hint=f"nvidia-smi -i {uuid} -q -d COMPUTE",
            ) from None

    def write_mode(self, uuid: str, mode: ComputeMode) -> None:
        problem = self._library.write_mode(uuid, _NUMBERS[mode])
        if problem:
            answer = self._tool.run("-i", uuid, "-c", mode)
            problem = "" if answer.success else f"{problem}; {answer.text}"
        now = self.read_mode(uuid)
        if now is not mode:
            raise ServiceUnavailable(
                f"Card {uuid} did not take compute mode {mode}, it has {now}: "
                f"{problem or 'the driver reported success'}",
                hint=f"as root: nvidia-smi -i {uuid} -c {mode}",
            )
