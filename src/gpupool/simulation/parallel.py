"""Many independent pieces of work on all processors, with word of how far they are, ended together by Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

from gpupool.scheduling import kernel

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
Tell = Callable[[float], None]
"""Told which part of a piece is done, 0 to 1."""
_SECONDS = 0.2
_STEP = 0.02

_told: Any = None


def use_kernel(library: Path) -> bool:
    """Decide by the compiled kernel from now on, here and in processes of `run_all`; whether there is a fit one."""
    return kernel.adopt(library)


def run_all(
    work: Callable[[T, Tell], R],
    pieces: Sequence[T],
    told: Tell,
    workers: int | None = None,
    done: Callable[[R], None] = lambda _result: None,
) -> list[R]:
    """`work(piece, tell)` of every piece, in their order.

    `told` hears which part of all of it is done, `done` each result as it comes. `work` is a function of a module and
    pieces can be pickled, for each may run in a process of its own.
    """
    number = min(len(pieces), workers or len(os.sched_getaffinity(0)))
    if number <= 1:
        return [_alone(work, piece, _part_of(told, place, len(pieces)), done) for place, piece in enumerate(pieces)]
    context = multiprocessing.get_context("spawn")  # a copy of a process with threads may hang
    said = context.Queue()
    with ProcessPoolExecutor(number, context, initializer=_begin, initargs=(said, kernel.adopted())) as pool:
        before = set(multiprocessing.active_children())
        try:
            # Ctrl-C is ours to hear: whoever is born now never does.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            futures = [pool.submit(_do, work, place, piece) for place, piece in enumerate(pieces)]
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            return _await(futures, said, told, done)
        except BaseException:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


class InOrder(Generic[K, R]):
    """Hands results on in the order of `keys`, though they come in any."""

    def __init__(self, keys: Iterable[K], following: Callable[[R], None]) -> None:
        self._keys = iter(keys)
        self._due = next(self._keys, None)
        self._following = following
        self._early: dict[K, R] = {}

    def put(self, key: K, result: R) -> None:
        self._early[key] = result
        while self._due is not None and self._due in self._early:
            self._following(self._early.pop(self._due))
            self._due = next(self._keys, None)


def _alone(work: Callable[[T, Tell], R], piece: T, tell: Tell, done: Callable[[R], None]) -> R:
    result = work(piece, tell)
    done(result)
    return result


def _await(futures: list[Future[R]], said: Any, told: Tell, heard: Callable[[R], None]) -> list[R]:
    parts = [0.0] * len(futures)
    left = set(futures)
    while left:
        done, left = wait(left, timeout=_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            heard(future.result())
            parts[futures.index(future)] = 1.0
        while True:
            try:
                place, part = said.get_nowait()
            except queue.Empty:
                break
            parts[place] = max(parts[place], part)
        told(sum(parts) / len(parts))
    return [future.result() for future in futures]


def _begin(said: Any, library: Path | None) -> None:
    global _told
    _told = said
    kernel.adopt(library)


def _do(work: Callable[[T, Tell], R], place: int, piece: T) -> R:
    last = 0.0

    def tell(part: float) -> None:
        nonlocal last
        if part - last >= _STEP:
            last = part
            _told.put((place, part))

    return work(piece, tell)


def _part_of(told: Tell, place: int, number: int) -> Tell:
    return lambda part: told((place + part) / number)
