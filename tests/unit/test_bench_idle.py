"""What wakes an idle server is told apart from its heartbeats, on wake-ups that were recorded and
on real ones."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.figures.idle import Burst, beyond_heartbeats, rss_mib, settle, switches, watch


def bursts(*instants: float) -> list[Burst]:
    return [Burst(at, at, {1: 2}) for at in instants]


def test_wakeups_that_are_a_heartbeat_apart_are_heartbeats() -> None:
    assert beyond_heartbeats(bursts(3.1, 28.2, 53.2)) == []


def test_what_comes_between_two_heartbeats_is_not_one() -> None:
    assert [burst.began for burst in beyond_heartbeats(bursts(3.1, 10, 28.2, 53.2))] == [10]


def test_what_comes_before_the_first_heartbeat_is_not_one_either() -> None:
    assert len(beyond_heartbeats(bursts(3, 20, 45))) == 1


def test_polling_leaves_no_more_heartbeats_than_there_is_time_for() -> None:
    polled = bursts(*(float(second) for second in range(0, 60, 2)))
    assert len(beyond_heartbeats(polled)) == 30 - 3


def test_nothing_that_wakes_is_nothing_beyond() -> None:
    assert beyond_heartbeats([]) == []


@contextmanager
def program(text: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_a_program_that_sleeps_is_quiet_and_one_that_polls_is_not() -> None:
    with program("import time; print(flush=True); time.sleep(60)") as sleeper:
        settle(sleeper)
        assert watch(sleeper, 1.0) == []
        assert 1 < rss_mib(sleeper) < 100
    with program("import time; print(flush=True)\nwhile True: time.sleep(0.02)") as poller:
        (polled,) = watch(poller, 1.0)
        assert polled.wakeups > 10
        assert list(polled.threads) == [poller]


def test_every_thread_is_looked_at() -> None:
    text = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(flush=True); input()"
    with program(text) as pid:
        assert len(switches(pid)) == 2


def test_a_program_that_never_rests_does_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.figures.idle.SETTLE_LIMIT_SECONDS", 0.5)
    with (
        program("import time; print(flush=True)\nwhile True: time.sleep(0.02)") as poller,
        pytest.raises(TimeoutError, match="without a wake-up"),
    ):
        settle(poller)
