"""Bodies that hang: said within their bound, never for a pause of the process, and ended in the
end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gpupool.base import silence
from gpupool.base.running_clock import MOST_SECONDS, RunningClock
from gpupool.base.silence import PATIENCE_SECONDS, BodyBeat, BodyPulse, mark_busy, read_scale
from gpupool.base.supervision import (
    BodyRegister,
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
        self.pulse = BodyPulse(self.ended.append, RunningClock(self.now))
        self.pulse.start_clock = lambda: None  # type: ignore[method-assign]  # nothing else drives it
        self.beat = BodyBeat("body", self.pulse)
        self.pulse.add(self.beat)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now.now += 1
            self.pulse.clock.step()
            self.pulse.end_hung()


def test_a_round_that_takes_longer_than_it_may_is_silent_until_it_ends() -> None:
    hand = Hand()
    with hand.beat.mark_busy(60):
        hand.run(59)
        assert hand.pulse.list_silent() == []
        hand.run(2)
        (found,) = hand.pulse.list_silent()
        assert found.text == "silent since 61 s: one round of it takes at most 60 s"
    assert hand.pulse.list_silent() == []


def test_a_body_that_waits_for_work_is_never_silent() -> None:
    hand = Hand()
    hand.run(10_000)
    with hand.beat.mark_busy(60):
        hand.run(10)
    hand.run(10_000)
    assert hand.pulse.list_silent() == []


def test_a_pause_of_the_process_is_no_silence() -> None:
    """SIGSTOP, a suspended machine, a machine too busy to run the process: the clock was not
    driven."""
    hand = Hand()
    with hand.beat.mark_busy(60):
        for _ in range(20):
            hand.now.now += 3600
            hand.pulse.clock.step()
            hand.pulse.end_hung()
        assert hand.pulse.list_silent() == []
        assert hand.ended == []
        hand.run(int(60 - 20 * MOST_SECONDS) + 1)
        assert len(hand.pulse.list_silent()) == 1


def test_a_round_within_a_round_is_timed_by_itself() -> None:
    hand = Hand()
    with hand.beat.mark_busy(60):
        hand.run(50)
        with hand.beat.mark_busy(60):
            hand.run(50)
            assert hand.pulse.list_silent() == []
        assert len(hand.pulse.list_silent()) == 1


def test_a_body_that_stays_silent_has_its_process_ended_once() -> None:
    hand = Hand()
    with hand.beat.mark_busy(60):
        hand.run(60 + int(PATIENCE_SECONDS) - 1)
        assert hand.ended == []
        hand.run(10)
    assert hand.ended == ["body"]


def test_a_process_whose_thread_the_kernel_holds_is_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its end would wait for that thread as well, and nobody would be served meanwhile."""
    monkeypatch.setattr(silence, "_is_in_kernel", lambda _thread: True)
    hand = Hand()
    with hand.beat.mark_busy(60):
        hand.run(60 + int(PATIENCE_SECONDS) + 10)
        assert len(hand.pulse.list_silent()) == 1
    assert hand.ended == []


@pytest.mark.parametrize("kind", ["thread", "task", "step"])
def test_what_is_supervised_and_hangs_is_in_trouble_and_ends_its_process(kind: str) -> None:
    register, ended, free = BodyRegister(), list[str](), threading.Event()
    register.end_process = ended.append
    register.pulse.scale = 0.0

    def hang() -> None:
        with mark_busy():
            free.wait()

    async def task() -> None:
        with mark_busy():
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
    until(lambda: [one.name for one in register.list_troubles()] == ["body"], "its trouble")
    until(lambda: ended == ["body"], "the end of the process")
    free.set()
    until(lambda: not register.list_troubles(), "the end of its trouble")


def test_rounds_are_shorter_in_a_test_alone() -> None:
    assert read_scale({"GPUPOOL_PATIENCE": "0.1"}) == 1.0
    assert read_scale({"GPUPOOL_PATIENCE": "0.1", "GPUPOOL_FAULTS_ALLOWED": "1"}) == 0.1


def test_a_task_of_a_group_that_hangs_is_named_and_what_it_raises_ends_the_group() -> None:
    hand, known = Hand(), BodyRegister()
    known.pulse = hand.pulse

    async def run() -> None:
        hangs = asyncio.Event()

        async def body() -> None:
            with mark_busy(60):
                await hangs.wait()
                raise ValueError("a defect")

        task = asyncio.create_task(watched_task("rounds", body, known=known))
        await asyncio.sleep(0)
        assert known.list_names() == ["rounds"]
        hand.run(61)
        assert [one.name for one in known.list_troubles()] == ["rounds"]
        hangs.set()
        with pytest.raises(ValueError, match="a defect"):
            await task

    asyncio.run(run())
    assert (known.list_names(), known.list_troubles()) == ([], [])


def test_an_event_loop_that_is_held_up_is_named() -> None:
    hand, known = Hand(), BodyRegister()
    known.pulse = hand.pulse

    async def run() -> None:
        task = asyncio.create_task(beating_loop(known=known))
        await asyncio.sleep(0)
        hand.run(61)  # and no task of this loop runs meanwhile
        assert [one.name for one in known.list_silent()] == ["event-loop"]
        task.cancel()

    asyncio.run(run())
    assert known.list_silent() == []
