"""The door to pynvml: drivers that do not start, and addresses."""

import shutil
from pathlib import Path

import pytest

from gpupool.probes.nvml import NvmlProbe, format_pci_address
from tests.unit.probes.fake_driver import ask_probe


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ("unloaded", "kernel module is not loaded"),
        ("mismatched", "updated while loaded"),
        ("empty", "shows no card"),
    ],
)
def test_a_driver_that_cannot_serve_says_why(
    library: Path, sysfs: Path, scene: str, words: str
) -> None:
    available = ask_probe(library, scene, sysfs)["available"]
    assert available["ok"] is False
    assert words in available["reason"]


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has the driver")
def test_without_the_library_the_probe_says_that_no_driver_is_installed() -> None:
    available = NvmlProbe().available()
    assert not available.ok
    assert "not installed" in available.reason


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("00000000:AF:00.0", "0000:af:00.0"), ("00010000:01:00.0", "10000:01:00.0")],
)
def test_addresses_are_written_as_the_kernel_writes_them(theirs: str, ours: str) -> None:
    assert format_pci_address(theirs) == ours
