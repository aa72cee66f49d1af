"""Leases: an attached client that keeps asking keeps its share, also across a pause of the
server."""

from __future__ import annotations

import threading

from gpupool.allocations.lifecycle.leases import LATE_SECONDS, LEASE_SECONDS, TICK_SECONDS, Leases
from gpupool.base.errors import DiskFull
from tests.support.hand_clock import Clock
from tests.support.supervised import until


class Timer:
    """Leases whose time is told by hand, and the looks that their thread would take."""

    def __init__(self) -> None:
        self.now = 100.0
        self.leases = Leases(lambda jobs: None, now=lambda: self.now)

    def look_until(self, instant: float) -> list[str]:
        """Every look until then, each in time; the jobs whose lease ended."""
        ended = list[str]()
        while self.now < instant:
            found, seconds = self.leases.take_expired()
            ended += found
            self.now = min(
                instant, self.now + (TICK_SECONDS if seconds is None else max(seconds, 0.01))
            )
        return ended + self.leases.take_expired()[0]


def test_a_lease_that_nobody_renews_ends() -> None:
    timer = Timer()
    timer.leases.renew_lease("a")
    assert timer.look_until(100 + LEASE_SECONDS - 0.1) == []
    assert timer.look_until(100 + LEASE_SECONDS + 0.1) == ["a"]


def test_a_pause_of_the_server_gives_every_job_a_fresh_lease() -> None:
    timer = Timer()
    timer.leases.renew_lease("a")
    timer.look_until(100 + LEASE_SECONDS - 1)
    timer.now += 60
    assert timer.leases.take_expired()[0] == [], "the server could hear nobody in that minute"
    began = timer.now
    assert timer.look_until(began + LEASE_SECONDS - 0.1) == []
    assert timer.look_until(began + LEASE_SECONDS + 0.1) == ["a"]


def test_a_look_that_is_a_little_late_gives_no_time() -> None:
    timer = Timer()
    timer.leases.renew_lease("a")
    timer.look_until(100 + LEASE_SECONDS - 0.5)
    timer.now += LATE_SECONDS / 2 + 0.5
    assert timer.leases.take_expired()[0] == ["a"]


def test_an_end_that_could_not_be_written_is_due_again() -> None:
    clock = Clock()
    tries = list[list[str]]()
    ended = threading.Event()

    def expired(jobs: list[str]) -> None:
        tries.append(jobs)
        if len(tries) < 3:
            raise DiskFull("injected")
        ended.set()

    leases = Leases(expired, now=clock)
    leases.renew_lease("a")
    clock.now = LEASE_SECONDS
    leases.start()
    try:
        until(ended.is_set, "the third try")
    finally:
        leases.close()
    assert tries == [["a"]] * 3
