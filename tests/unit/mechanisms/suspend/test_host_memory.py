"""How much main memory a job may still take: the host's, and what its cgroups leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.suspend.host_memory import KEEP_FREE_BYTES, measure_host_room

GIB = 1 << 30
AVAILABLE = 40 * GIB


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal: 1 kB\nMemAvailable:   {AVAILABLE // 1024} kB\n")
    return path


def test_the_host_keeps_a_part_free(meminfo: Path) -> None:
    assert measure_host_room((), meminfo) == AVAILABLE - KEEP_FREE_BYTES
    meminfo.write_text("MemAvailable: 8 kB\n")
    assert measure_host_room((), meminfo) == 0


@pytest.mark.parametrize(
    ("limit_name", "used_name"),
    [("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")],
)
def test_the_jobs_own_limit_counts(
    meminfo: Path, tmp_path: Path, limit_name: str, used_name: str
) -> None:
    (tmp_path / limit_name).write_text(f"{4 * GIB}\n")
    (tmp_path / used_name).write_text(f"{3 * GIB}\n")
    assert measure_host_room((tmp_path, tmp_path / "absent"), meminfo) == GIB


def test_a_group_without_a_limit_changes_nothing(meminfo: Path, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("4096\n")
    assert measure_host_room((tmp_path,), meminfo) == AVAILABLE - KEEP_FREE_BYTES
