import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode, DriverComputeModes
from gpupool.mechanisms.card_settings.vendor_tool import ToolAnswer
from gpupool.probes.nvml.compute_modes import NvmlComputeModes


class Tool:
    """nvidia-smi for one card; `takes` is whether it may set the mode."""

    def __init__(self, mode: str = "Default", *, takes: bool = True) -> None:
        self.mode = mode
        self.takes = takes

    def run(self, *arguments: str) -> ToolAnswer:
        if "-c" not in arguments:
            return ToolAnswer(True, self.mode)
        if self.takes:
            self.mode = {"EXCLUSIVE_PROCESS": "Exclusive_Process", "DEFAULT": "Default"}[
                arguments[-1]
            ]
            return ToolAnswer(True, f"Set compute mode to {arguments[-1]} for GPU 0.")
        return ToolAnswer(False, "Unable to set the compute mode: Insufficient Permissions")


class Library(NvmlComputeModes):
    """NVML for one card; `number` None: it does not start."""

    def __init__(self, number: int | None) -> None:
        self.number = number

    def read_mode(self, uuid: str) -> int | None:
        return self.number

    def write_mode(self, uuid: str, number: int) -> str:
        if self.number is None:
            return "libnvidia-ml.so.1 is not here"
        self.number = number
        return ""


def test_the_library_reads_and_writes() -> None:
    modes = DriverComputeModes(Library(0), Tool(takes=False))
    assert modes.read_mode("GPU-1") is ComputeMode.DEFAULT
    modes.write_mode("GPU-1", ComputeMode.EXCLUSIVE_PROCESS)
    assert modes.read_mode("GPU-1") is ComputeMode.EXCLUSIVE_PROCESS


def test_the_tool_serves_where_the_library_does_not_start() -> None:
    modes = DriverComputeModes(Library(None), Tool())
    modes.write_mode("GPU-1", ComputeMode.EXCLUSIVE_PROCESS)
    assert modes.read_mode("GPU-1") is ComputeMode.EXCLUSIVE_PROCESS


def test_a_mode_that_was_not_taken_says_both_reasons() -> None:
    modes = DriverComputeModes(Library(None), Tool(takes=False))
    with pytest.raises(ServiceUnavailable) as refusal:
        modes.write_mode("GPU-1", ComputeMode.EXCLUSIVE_PROCESS)
    for text in ("it has DEFAULT", "libnvidia-ml", "Insufficient Permissions"):
        assert text in refusal.value.message


def test_success_without_effect_is_a_failure() -> None:
    library = Library(0)
    library.write_mode = lambda uuid, number: ""  # type: ignore[method-assign]
    with pytest.raises(ServiceUnavailable, match="the driver reported success"):
        DriverComputeModes(library, Tool()).write_mode("GPU-1", ComputeMode.EXCLUSIVE_PROCESS)


def test_a_card_that_nothing_knows_cannot_be_read() -> None:
    tool = Tool("No devices were found")
    with pytest.raises(ServiceUnavailable, match="No devices were found"):
        DriverComputeModes(Library(None), tool).read_mode("GPU-1")
