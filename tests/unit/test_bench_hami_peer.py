"""HAMi-core beside the fence: a missing library is said and leaves figures without a peer; limits
are held exactly."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.figures import fence_peer
from bench.figures.fence_peer import BARE, OURS, PEER, Bench, Work
from bench.hami_peer import VARIABLE, Peer, PeerMissingError, find
from tests.support.fenced_card import Card

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with contextlib.closing(Bench(tmp_path, None)) as made:
        yield made


def test_without_a_name_there_is_no_peer() -> None:
    with pytest.raises(PeerMissingError, match=f"{VARIABLE} names no"):
        find({})


def test_a_library_that_is_not_there_is_no_peer(tmp_path: Path) -> None:
    with pytest.raises(PeerMissingError, match="No such file"):
        find({VARIABLE: str(tmp_path / "libvgpu.so")})


def test_a_file_that_is_no_library_is_no_peer(tmp_path: Path) -> None:
    (tmp_path / "libvgpu.so").write_text("not one")
    with pytest.raises(PeerMissingError, match="no shared library"):
        find({VARIABLE: str(tmp_path / "libvgpu.so")})


def test_a_library_is_found_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libvgpu.so").write_bytes(b"\x7fELF and more")
    monkeypatch.chdir(tmp_path)
    assert find({VARIABLE: "libvgpu.so"}) == Peer(tmp_path / "libvgpu.so")


def test_limits_that_are_not_asked_for_are_not_set(tmp_path: Path) -> None:
    peer = Peer(tmp_path / "libvgpu.so")
    free = peer.environment(tmp_path / "cache")
    limited = peer.environment(tmp_path / "cache", memory_bytes=5 << 30, percent=30)
    assert set(limited.items()) - set(free.items()) == {
        ("CUDA_DEVICE_MEMORY_LIMIT", str(5 << 30)),
        ("CUDA_DEVICE_SM_LIMIT", "30"),
    }


@needs_compiler
def test_nothing_over_our_limit_and_a_bare_card_filled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence_peer, "RACERS", 3)
    monkeypatch.setattr(fence_peer, "PIECE_MIB", 64)
    over, asked = fence_peer._held(bench, OURS, 4)
    assert -64 < over <= 0
    assert asked < over
    assert fence_peer._held(bench, BARE, 4)[0] > 10_000


@needs_compiler
def test_the_part_of_the_card_is_what_its_count_says(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence_peer, "SETTLE_SECONDS", 0.3)
    monkeypatch.setattr(fence_peer, "WINDOW_SECONDS", 0.7)
    work = Work("kernels of 5 ms", "step_ms_5", 2, "kernel", 1)
    [[few, many]] = fence_peer._had(bench, [(Card(bench.new()), OURS, [20, 70])], work)
    assert 0 < few < 35, "a busy machine takes from both, and never gives"
    assert few < many < 85


def test_a_side_that_was_not_measured_is_unknown() -> None:
    bare, peer = fence_peer._beside("figure", "ns", {OURS: 2.0, BARE: 1.0})
    assert (bare.ratio, bare.figure) == (2.0, f"figure | {BARE}")
    assert (peer.peer, peer.ratio, peer.figure) == (None, None, f"figure | {PEER}")
