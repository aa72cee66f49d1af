"""Memory of graphics clients, from descriptions as the kernel's documentation shows them."""

from pathlib import Path

import pytest

from gpupool.probes.common.drm_clients import DrmClients, read_client_memory

# Keys and units: https://docs.kernel.org/gpu/drm-usage-stats.html.
XE = "drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:4d:00.0\n"


def open_file(proc: Path, pid: int, number: int, target: str, text: str) -> None:
    folder = proc / str(pid)
    for name in ("fd", "fdinfo"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "fd" / str(number)).symlink_to(target)
    (folder / "fdinfo" / str(number)).write_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"drm-total-vram0": "2 MiB", "drm-total-vram1": "1 MiB"}, 3 << 20),
        ({"drm-total-vram0": "9 MiB", "drm-resident-vram0": "4 KiB"}, 4 << 10),
        ({"drm-memory-vram": "2048 KiB", "drm-memory-gtt": "64 KiB"}, 2 << 20),
        ({"drm-total-local0": "512"}, 512),
        ({"drm-total-system0": "1 MiB"}, 0),
        ({"drm-total-vram0": "much"}, 0),
    ],
)
def test_memory_on_the_card_counts_and_main_memory_does_not(
    text: dict[str, str], expected: int
) -> None:
    assert read_client_memory(text) == expected


def test_a_client_with_two_descriptors_counts_once(tmp_path: Path) -> None:
    text = f"{XE}drm-resident-vram0:\t64 MiB\n"
    open_file(tmp_path, 100, 5, "/dev/dri/renderD128", text)
    open_file(tmp_path, 100, 6, "/dev/dri/renderD128", text)
    other = text.replace("client-id:\t7", "client-id:\t8")
    open_file(tmp_path, 100, 7, "/dev/dri/card0", other)
    open_file(tmp_path, 200, 3, "/dev/dri/renderD128", text)
    assert DrmClients(tmp_path).sum_memory() == {
        "0000:4d:00.0": {100: 128 << 20, 200: 64 << 20},
    }


def test_other_files_and_other_entries_are_left_out(tmp_path: Path) -> None:
    open_file(tmp_path, 100, 5, "/tmp/file", XE)
    open_file(tmp_path, 101, 5, "/dev/dri/renderD128", "pos:\t0\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "300").mkdir()
    assert DrmClients(tmp_path).sum_memory() == {}
