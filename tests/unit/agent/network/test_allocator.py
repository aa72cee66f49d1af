"""The allocator of a daemon: the system's own jemalloc, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.network.allocator import choose_allocator


@pytest.mark.parametrize("place", ["aarch64-linux-gnu", "x86_64-linux-gnu", "."])
def test_the_allocator_of_the_system_is_found(tmp_path: Path, place: str) -> None:
    library = tmp_path / place / "libjemalloc.so.2"
    library.parent.mkdir(exist_ok=True)
    library.touch()
    assert choose_allocator((tmp_path / "lib64", tmp_path)) == {"LD_PRELOAD": str(library)}


def test_a_machine_without_it_runs_its_daemons_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "x86_64-linux-gnu").mkdir()
    (tmp_path / "x86_64-linux-gnu/libjemalloc.so.1").touch()
    # A directory of that name is no library.
    (tmp_path / "libjemalloc.so.2").mkdir()
    assert choose_allocator((tmp_path,)) == {}
