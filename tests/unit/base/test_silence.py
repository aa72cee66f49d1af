"""Bodies that hang: said within their bound, never for a pause of the process, and ended in the end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gpupool.base import silence
from gpupool.base.running_clock import MOST_SECONDS, RunningClock
from gpupool.base.silence import PATIENCE_SECONDS, Beat, Pulse, busy, scale_from
from gpupool.base.supervised import (
    Register,
    SupervisedThread,
    beating_loop,
    supervised_step,
    supervised_task,
    watched_task,
)
from tests.support.hand_clock import Clock
from tests.support.supervised import until


class Hand:
    """A pulse that a test drives, second by second."""

    def __init__(self) -> None:
        self.now = Clock()
        self.ended = list[str]()
        self.pulse = Pulse(self.ended.append, RunningClock(self.now))
        self.pulse.wake = lambda: None  # type: ignore[method-assign]  # nothing else drives it
        self.beat = Beat("body", self.pulse)
        self.pulse.add(self.beat)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now.now += 1
            self.pulse.clock.step()
            self.pulse.look()


def test_a_round_that_takes_longer_than_it_may_is_silent_until_it_ends() -> None:
    hand = Hand()
    with hand.beat.busy(60):
        hand.run(59)
        assert hand.pulse.silences() == []
        hand.run(2)
        (found,) = hand.pulse.silences()
        assert found.text == "silent since 61 s: one round of it takes at most 60 s"
    assert hand.pulse.silences() == []


def test_a_body_that_waits_for_work_is_never_silent() -> None:
    hand = Hand()
    hand.run(10_000)
    with hand.beat.busy(60):
        hand.run(10)
    hand.run(10_000)
    assert hand.pulse.silences() == []


def test_a_pause_of_the_process_is_no_silence() -> None:
    """SIGSTOP, a suspended machine, a machine too busy to run the process: the clock was not driven."""
    hand = Hand()
    with hand.beat.busy(60):
        for _ in range(20):
            hand.now.now += 3600
            hand.pulse.clock.step()
            hand.pulse.look()
        assert hand.pulse.silences() == []
        assert hand.ended == []
        hand.run(int(60 - 20 * MOST_SECONDS) + 1)
        assert len(hand.pulse.silences()) == 1


def test_a_round_within_a_round_is_timed_by_itself() -> None:
    hand = Hand()
    with hand.beat.busy(60):
        hand.run(50)
        with hand.beat.busy(60):
            hand.run(50)
            assert hand.pulse.silences() == []
        assert len(hand.pulse.silences()) == 1


def test_a_body_that_stays_silent_has_its_process_ended_once() -> None:
    hand = Hand()
    with hand.beat.busy(60):
        hand.run(60 + int(PATIENCE_SECONDS) - 1)
        assert hand.ended == []
        hand.run(10)
    assert hand.ended == ["body"]


def test_a_process_whose_thread_the_kernel_holds_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end would wait for that thread as well, and nobody would be served meanwhile."""
    monkeypatch.setattr(silence, "_is_in_kernel", lambda _thread: True)
    hand = Hand()
    with hand.beat.busy(60):
        hand.run(60 + int(PATIENCE_SECONDS) + 10)
        assert len(hand.pulse.silences()) == 1
    assert hand.ended == []


@pytest.mark.parametrize("kind", ["thread", "task", "step"])
def test_what_is_supervised_and_hangs_is_in_trouble_and_ends_its_process(kind: str) -> None:
    register, ended, free = Register(), list[str](), threading.Event()
    register.end_process = ended.append
    register.pulse.scale = 0.0

    def hang() -> None:
        with busy():
            free.wait()

    async def task() -> None:
        with busy():
            await asyncio.to_thread(free.wait)

    async def supervise() -> None:
        await supervised_task("body", task, known=register)

    def step() -> None:
        with supervised_step("body", known=register):
            free.wait()

    if kind == "thread":
        SupervisedThread("body", hang, known=register).start()
    else:
        body = step if kind == "step" else lambda: asyncio.run(supervise())
        threading.Thread(target=body, daemon=True).start()
    until(lambda: [one.name for one in register.troubles()] == ["body"], "its trouble")
    until(lambda: ended == ["body"], "the end of the process")
    free.set()
    until(lambda: not register.troubles(), "the end of its trouble")


def test_rounds_are_shorter_in_a_test_alone() -> None:
    assert scale_from({"GPUPOOL_PATIENCE": "0.1"}) == 1.0
    assert scale_from({"GPUPOOL_PATIENCE": "0.1", "GPUPOOL_FAULTS_ALLOWED": "1"}) == 0.1


def test_a_task_of_a_group_that_hangs_is_named_and_what_it_raises_ends_the_group() -> None:
    hand, known = Hand(), Register()
    known.pulse = hand.pulse

    async def run() -> None:
        hangs = asyncio.Event()

        async def body() -> None:
            with busy(60):
                await hangs.wait()
                raise ValueError("a defect")

        task = asyncio.create_task(watched_task("rounds", body, known=known))
        await asyncio.sleep(0)
        assert known.names() == ["rounds"]
        hand.run(61)
        assert [one.name for one in known.troubles()] == ["rounds"]
        hangs.set()
        with pytest.raises(ValueError, match="a defect"):
            await task

    asyncio.run(run())
    assert (known.names(), known.troubles()) == ([], [])


def test_an_event_loop_that_is_held_up_is_named() -> None:
    hand, known = Hand(), Register()
    known.pulse = hand.pulse

    async def run() -> None:
        task = asyncio.create_task(beating_loop(known=known))
        await asyncio.sleep(0)
        hand.run(61)  # and no task of this loop runs meanwhile
        assert [one.name for one in known.silences()] == ["event-loop"]
        task.cancel()

    asyncio.run(run())
    assert known.silences() == []
