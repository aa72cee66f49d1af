"""What amdgpu says of a card: formats of https://docs.kernel.org/gpu/amdgpu."""

from pathlib import Path

import pytest

from gpupool.model.device import DeviceHealth
from gpupool.probes.amd.card_files import AmdCard
from tests.support.recorded_hosts import write

PAGES = "ras/gpu_vram_bad_pages"


def test_partition_modes_are_facts_of_the_card(tmp_path: Path) -> None:
    assert AmdCard(tmp_path).read_partition_labels() == {}
    write(tmp_path / "current_compute_partition", "CPX")
    write(tmp_path / "available_compute_partition", "SPX, DPX, QPX, CPX")
    write(tmp_path / "current_memory_partition", "NPS4")
    assert AmdCard(tmp_path).read_partition_labels() == {
        "compute-partition": "CPX",
        "compute-partitions": "SPX,DPX,QPX,CPX",
        "memory-partition": "NPS4",
    }


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"ras/umc_err_count": "ue: 0\nce: 5"}, ""),
        (
            {"ras/umc_err_count": "ue: 2\nce: 5", "ras/sdma_err_count": "ue: 1\nce: 0"},
            "3 uncorrected errors since the driver was loaded",
        ),
        ({PAGES: "0x00000001 : 0x00001000 : R"}, ""),
        (
            {PAGES: "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P"},
            "1 memory pages wait to be retired: reset the card",
        ),
        ({PAGES: "0x00000003 : 0x00001000 : F"}, "1 memory pages could not be retired"),
    ],
)
def test_damage_is_a_warning_with_its_numbers(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    write(tmp_path / "mem_info_vram_used", 1)
    for name, text in files.items():
        write(tmp_path / name, text)
    expected = DeviceHealth.WARNING if reason else DeviceHealth.OK
    assert AmdCard(tmp_path).judge_health() == (expected, reason)


def test_a_card_that_answers_nothing_is_unknown(tmp_path: Path) -> None:
    health, reason = AmdCard(tmp_path).judge_health()
    assert health is DeviceHealth.UNKNOWN
    assert reason


def test_identities_are_hex_or_zero(tmp_path: Path) -> None:
    assert AmdCard(tmp_path).read_uuid() == 0
    write(tmp_path / "unique_id", "5c88007d760374f3")
    assert AmdCard(tmp_path).read_uuid() == 0x5C88007D760374F3
    write(tmp_path / "unique_id", "none")
    assert AmdCard(tmp_path).read_uuid() == 0
    assert AmdCard(tmp_path).read_pci_id() is None
    write(tmp_path / "vendor", "0x1002")
    write(tmp_path / "device", "0x740f")
    assert AmdCard(tmp_path).read_pci_id() == "1002:740f"
