"""The size of an Intel card's memory, from the two places where a kernel may show it."""

from pathlib import Path

from gpupool.probes.intel.memory import read_card_memory, read_region_sizes
from tests.support.recorded_hosts import write

ADDRESS = "0000:03:00.0"


def test_regions_of_all_tiles_add_up_and_stolen_memory_does_not(tmp_path: Path) -> None:
    # Lines as in the kernel's documentation of cgroup v2, DMEM.
    lines = (
        f"drm/{ADDRESS}/vram0 8514437120\ndrm/{ADDRESS}/vram1 100\ndrm/{ADDRESS}/stolen 67108864"
    )
    write(tmp_path / "fs/cgroup/dmem.capacity", lines)
    assert read_region_sizes(tmp_path) == {ADDRESS: 8514437220}
    assert read_card_memory(ADDRESS, tmp_path) == 8514437220
    assert read_card_memory("0000:04:00.0", tmp_path) is None


def test_the_drivers_own_file_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "fs/cgroup/dmem.capacity", f"drm/{ADDRESS}/vram0 1")
    folder = tmp_path / "bus/pci/devices" / ADDRESS / "drm/card1"
    write(folder / "lmem_total_bytes", 17179869184)
    assert read_card_memory(ADDRESS, tmp_path) == 17179869184


def test_a_kernel_that_shows_nothing_is_no_size(tmp_path: Path) -> None:
    assert read_region_sizes(tmp_path) == {}
    assert read_card_memory(ADDRESS, tmp_path) is None
