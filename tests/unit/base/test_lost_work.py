"""Work that a pool's thread or a callback loses for want of memory ends the process; no other error does."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

from gpupool.base import lost_work
from gpupool.base.lost_work import watch_loop, watch_threads
from gpupool.base.supervision import BodyRegister


@pytest.fixture
def ended() -> Iterator[tuple[BodyRegister, list[str]]]:
    known, names = BodyRegister(), list[str]()
    known.end_process = names.append
    before = threading.excepthook
    before_unraisable = sys.unraisablehook
    threading.excepthook = lambda args: None
    sys.unraisablehook = lambda args: None
    yield known, names
    threading.excepthook = before
    sys.unraisablehook = before_unraisable


def raise_error(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (MemoryError(), True),
        (RuntimeError("can't allocate lock"), True),
        (RuntimeError("can't start new thread"), False),
        (OSError(12, "Cannot allocate memory"), False),
        (ValueError("wrong"), False),
    ],
)
def test_only_a_shortage_of_memory_ends_the_process(
    ended: tuple[BodyRegister, list[str]], error: Exception, is_lost: bool
) -> None:
    known, names = ended
    watch_threads(known)
    thread = threading.Thread(target=raise_error, args=(error,), name="worker")
    thread.start()
    thread.join()
    assert names == (["worker"] if is_lost else [])

    names.clear()

    async def lose_a_callback() -> None:
        loop = asyncio.get_running_loop()
        watch_loop(loop, known)
        loop.call_soon(raise_error, error)
        await asyncio.sleep(0)

    asyncio.run(lose_a_callback())
    assert names == (["event-loop"] if is_lost else [])


class Unfinished:
    """An object whose finalizer raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


@pytest.mark.parametrize(("error", "is_lost"), [(MemoryError(), True), (ValueError(), False)])
def test_an_object_that_cannot_be_cleaned_up_for_want_of_memory_ends_the_process(
    ended: tuple[BodyRegister, list[str]], error: Exception, is_lost: bool
) -> None:
    known, names = ended
    watch_threads(known)
    Unfinished(error)
    assert names == ([threading.current_thread().name] if is_lost else [])


def test_a_callback_is_lost_where_its_error_cannot_be_judged(
    ended: tuple[BodyRegister, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    known, names = ended
    monkeypatch.setattr(lost_work, "is_memory_shortage", lambda error: raise_error(MemoryError()))

    async def lose_a_callback() -> None:
        loop = asyncio.get_running_loop()
        watch_loop(loop, known)
        loop.call_soon(raise_error, MemoryError())
        await asyncio.sleep(0)

    asyncio.run(lose_a_callback())
    assert names == ["event-loop"]


def test_a_task_whose_error_nobody_took_ends_nothing(
    ended: tuple[BodyRegister, list[str]],
) -> None:
    known, names = ended

    async def fail() -> None:
        raise MemoryError

    async def forget_a_task() -> None:
        watch_loop(asyncio.get_running_loop(), known)
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        del task

    asyncio.run(forget_a_task())
    assert names == []
