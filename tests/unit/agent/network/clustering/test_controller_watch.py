"""A watch begins another connection where the controller has none for some time."""

from __future__ import annotations

from gpupool.agent.network.clustering.controller_watch import ControllerWatch


class Watched:
    """A controller, a clock, and the times at which another connection was begun."""

    def __init__(self) -> None:
        self.is_connected = True
        self.time = 100.0
        self.times: list[float] = []
        self.watch = ControllerWatch(
            lambda: self.is_connected, lambda: self.times.append(self.time), lambda: self.time
        )

    def pass_time(self, seconds: float) -> list[float]:
        """Look four times a second; seconds from the beginning to each new connection."""
        began = self.time
        self.times.clear()
        for _ in range(int(4 * seconds)):
            self.time += 0.25
            self.watch.look()
        return [time - began for time in self.times]


def test_a_connection_that_is_there_is_left_alone() -> None:
    assert Watched().pass_time(30) == []


def test_a_short_end_is_left_to_the_controller() -> None:
    watched = Watched()
    watched.is_connected = False
    assert watched.pass_time(0.5) == []
    watched.is_connected = True
    assert watched.pass_time(10) == []


def test_a_long_end_begins_other_connections_with_pauses_that_double_up_to_eight_seconds() -> None:
    watched = Watched()
    watched.is_connected = False
    assert watched.pass_time(32) == [0.75, 1.75, 3.75, 7.75, 15.75, 23.75, 31.75]
    watched.is_connected = True
    watched.pass_time(1)
    watched.is_connected = False
    assert watched.pass_time(1) == [0.75]


def test_a_watch_that_is_closed_starts_no_thread() -> None:
    watched = Watched()
    watched.is_connected = False
    watched.watch.follow("ssl:10.0.0.1:6642")
    watched.watch.close()
    watched.watch.follow("ssl:10.0.0.1:6642,ssl:10.0.0.2:6642")
    assert watched.times == []
