"""Where events lie on the host's clock: learnt from when they were recorded and when they were
seen."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import pytest

from tests.unit.native.fence_build import shared
from tests.unit.native.fence_share import SRC, compile_c

US, SECOND = 1000, 10**9
BEGIN = 5000 * SECOND


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    def build(made: Path) -> None:
        compile_c(made / "clock.so", [SRC / "limiter/gpu_clock.c"], "-fPIC", "-shared", "-O2")

    found = ctypes.CDLL(str(shared(tmp_path_factory, "fence-event-clock", build) / "clock.so"))
    found.gpu_clock_host.restype = ctypes.c_uint64
    return found


class Clock:
    """One context's, whose GPU time began `offset` ns ago and goes `drift_ppm` too fast."""

    def __init__(self, library: ctypes.CDLL, offset: int = 10**12, drift_ppm: int = 0) -> None:
        self._library, self._drift_ppm = library, drift_ppm
        self.offset = offset
        self._memory = ctypes.create_string_buffer(256)

    def _position(self, at: int) -> ctypes.c_int64:
        return ctypes.c_int64(at + (at - BEGIN) * self._drift_ppm // 10**6 - self.offset)

    def recorded(self, at: int, before: int = 0) -> None:
        """An event that happens at `at` and was recorded so long before."""
        self._library.gpu_clock_recorded(
            self._memory, self._position(at), ctypes.c_uint64(at - before)
        )

    def seen(self, at: int, after: int) -> None:
        self._library.gpu_clock_seen(self._memory, self._position(at), ctypes.c_uint64(at + after))

    def error(self, at: int, contended: bool = False) -> int:
        """How much later than it happened an event is taken to have happened, in ns."""
        found = self._library.gpu_clock_host(
            self._memory, self._position(at), ctypes.c_bool(contended)
        )
        assert isinstance(found, int)
        return found - at


@pytest.mark.parametrize("drift_ppm", [-50, 0, 20, 50])
def test_events_of_idle_streams_are_placed_within_microseconds(
    library: ctypes.CDLL, drift_ppm: int
) -> None:
    clock, chance = Clock(library, drift_ppm=drift_ppm), random.Random(drift_ppm)
    for number in range(20_000):
        at = BEGIN + number * 500 * US
        clock.recorded(at, chance.randrange(2 * US, 2000 * US) if number % 10 else 2 * US)
        clock.seen(at, chance.randrange(1 * US, 100 * US))
        if number > 4_000:
            assert -5 * US <= clock.error(at) <= 1 * US


@pytest.mark.parametrize("drift_ppm", [-50, 20])
def test_events_that_all_wait_for_the_card_are_placed_by_when_they_were_seen(
    library: ctypes.CDLL, drift_ppm: int
) -> None:
    clock, chance = Clock(library, drift_ppm=drift_ppm), random.Random(drift_ppm)
    for number in range(20_000):
        at = BEGIN + number * 500 * US
        clock.recorded(at, chance.randrange(150 * US, 2000 * US))
        clock.seen(at, chance.randrange(1 * US, 50 * US))
        if number > 4_000:
            assert -10 * US <= clock.error(at, contended=True) <= 5 * US


def test_a_queue_that_is_never_empty_does_not_move_the_clock(library: ctypes.CDLL) -> None:
    clock = Clock(library, drift_ppm=20)
    for number in range(200):
        at = BEGIN + number * 50_000 * US
        clock.recorded(at, 0 if number < 40 else 40_000 * US)
        clock.seen(at, 30 * US)
    assert abs(clock.error(at)) <= 30 * US


@pytest.mark.parametrize("jump", [-SECOND, SECOND])
def test_after_a_jump_of_either_clock_the_newest_bounds_are_believed(
    library: ctypes.CDLL, jump: int
) -> None:
    clock = Clock(library)
    for number in range(2_000):
        if number == 1_000:
            clock.offset += jump
        at = BEGIN + number * 500 * US
        clock.recorded(at, 2 * US)
        clock.seen(at, 30 * US)
        assert -2 * US <= clock.error(at) <= 30 * US
