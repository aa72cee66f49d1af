"""Supervised threads and tasks: tried again, counted, and never gone without a word."""

from __future__ import annotations

import asyncio
import errno
import threading

from gpupool.base.supervision import (
    BodyRegister,
    SupervisedThread,
    supervised_task,
)
from tests.support.supervised import until


def known() -> tuple[BodyRegister, list[str]]:
    register = BodyRegister()
    ended = list[str]()
    register.end_process = ended.append
    return register, ended


def test_a_thread_that_fails_is_called_again_and_counted() -> None:
    register, ended = known()
    calls = list[int]()

    def body() -> None:
        calls.append(1)
        if len(calls) < 4:
            raise ValueError("injected")

    thread = SupervisedThread("t", body, known=register, random_part=lambda: 1.0)
    thread.start()
    until(lambda: not thread.is_alive(), "its return")
    assert (len(calls), register.count_failures(), register.list_names(), ended) == (
        4,
        {"t": 3},
        [],
        [],
    )


def test_a_thread_that_fails_is_in_trouble_until_it_says_that_it_is_well() -> None:
    register, _ = known()
    fails, go, close = threading.Event(), threading.Event(), threading.Event()

    def body() -> None:
        if not fails.is_set():
            fails.set()
            raise OSError(errno.EMFILE, "injected")
        go.wait()
        thread.mark_well()
        close.wait()

    thread = SupervisedThread("t", body, known=register, random_part=lambda: 1.0)
    thread.start()
    until(register.list_troubles, "its trouble")
    assert "injected" in register.list_troubles()[0].text
    go.set()
    until(lambda: not register.list_troubles(), "the end of its trouble")
    close.set()
    thread.join()


def test_a_pause_does_not_hold_up_who_joins() -> None:
    register, _ = known()

    def body() -> None:
        raise ValueError("injected")

    thread = SupervisedThread("t", body, known=register, random_part=lambda: 0.0)
    thread.start()
    until(lambda: register.count_failures()["t"] >= 1, "a failure")
    thread.join(20)
    assert not thread.is_alive()


def test_what_is_not_caught_ends_the_process() -> None:
    register, ended = known()

    def body() -> None:
        raise SystemExit

    thread = SupervisedThread("t", body, known=register)
    thread.start()
    until(lambda: not thread.is_alive(), "its end")
    assert ended == ["t"]
    assert [trouble.dead for trouble in register.list_troubles()] == [True]


def test_a_task_that_fails_is_called_again_until_it_is_cancelled() -> None:
    register, ended = known()

    async def main() -> int:
        calls = 0
        done = asyncio.Event()

        async def body() -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                done.set()
                await asyncio.sleep(3600)
            raise ValueError("injected")

        task = asyncio.create_task(supervised_task("t", body, known=register))
        await done.wait()
        assert register.list_names() == ["t"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return calls

    assert asyncio.run(main()) == 3
    assert (register.count_failures(), register.list_names(), ended) == ({"t": 2}, [], [])
