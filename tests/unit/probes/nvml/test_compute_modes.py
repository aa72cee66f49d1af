"""On an object with the functions of pynvml, since the stand-in library has no compute mode."""

from types import SimpleNamespace
from typing import Any

from gpupool.base.errors import ServiceUnavailable
from gpupool.probes.nvml.compute_modes import NvmlComputeModes
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.gate import DriverGate


class Refusal(Exception):
    """NVML's error."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Card:
    """The compute mode of one card; without `root` it cannot be written."""

    def __init__(self, *, root: bool = True) -> None:
        self.mode = 0
        self.root = root

    def find(self, uuid: str) -> str:
        if uuid != "GPU-1":
            raise Refusal(6)
        return uuid

    def read(self, _handle: str) -> int:
        return self.mode

    def write(self, _handle: str, mode: int) -> None:
        if not self.root:
            raise Refusal(4)
        self.mode = mode


def build_driver(card: Card) -> NvmlDriver:
    library = SimpleNamespace(
        nvmlInit=lambda: None,
        NVMLError=Refusal,
        NVMLLibraryMismatchError=Refusal,
        nvmlDeviceGetHandleByUUID=card.find,
        nvmlDeviceGetComputeMode=card.read,
        nvmlDeviceSetComputeMode=card.write,
    )
    return NvmlDriver(DriverGate(lambda: library))


def test_the_mode_is_written_and_read() -> None:
    modes = NvmlComputeModes(build_driver(Card()))
    assert modes.read_mode("GPU-1") == 0
    assert modes.write_mode("GPU-1", 3) == ""
    assert modes.read_mode("GPU-1") == 3


def test_without_root_the_error_is_told() -> None:
    modes = NvmlComputeModes(build_driver(Card(root=False)))
    assert modes.write_mode("GPU-1", 3) == "the driver answered error 4"
    assert modes.read_mode("GPU-1") == 0


def test_an_unknown_card_cannot_be_read() -> None:
    modes = NvmlComputeModes(build_driver(Card()))
    assert modes.read_mode("GPU-2") is None
    assert "knows no card GPU-2" in modes.write_mode("GPU-2", 3)


def test_a_library_that_does_not_start_says_why() -> None:
    def refuse() -> Any:
        raise ServiceUnavailable("the NVIDIA driver is not installed")

    modes = NvmlComputeModes(NvmlDriver(DriverGate(refuse)))
    assert modes.read_mode("GPU-1") is None
    assert modes.write_mode("GPU-1", 3) == "the NVIDIA driver is not installed"
