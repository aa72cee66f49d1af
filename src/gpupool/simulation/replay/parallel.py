"""Run many independent pieces of work on all processors, with progress, ended by Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

from gpupool.scheduling.filtering import native_library

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
#: Called with the part of a piece that is done, 0 to 1.
TellProgress = Callable[[float], None]
#: Seconds between two looks at the queue of progress.
_SECONDS = 0.2
#: The least part of a piece that a worker reports: thousands of messages would slow it down.
_STEP = 0.02

#: The queue of progress of a worker process, set once when it starts.
_progress_queue: Any = None


def use_kernel(library: Path) -> bool:
    """Decide by the compiled library from now on, here and in the processes of `run_all`.

    Return whether there is one that fits this version.
    """
    return native_library.adopt_native_library(library)


def run_all(
    work: Callable[[T, TellProgress], R],
    pieces: Sequence[T],
    told: TellProgress,
    workers: int | None = None,
    done: Callable[[R], None] = lambda _result: None,
) -> list[R]:
    """Run `work(piece, tell)` for every piece and return the results in their order.

    Blocks until all have ended. Each piece may run in a process of its own, so `work` is a function
    of a module and pieces can be pickled.

    Args:
        work: Called once for each piece.
        pieces: The pieces.
        told: Called with the part of all work that is done, 0 to 1.
        workers: Processes; by default as many as this process may use processors.
        done: Called with each result as it comes, in any order.
    """
    number = min(len(pieces), workers or len(os.sched_getaffinity(0)))
    if number <= 1:
        results: list[R] = []
        for place, piece in enumerate(pieces):
            results.append(_run_here(work, piece, _scale_progress(told, place, len(pieces)), done))
        return results
    context = multiprocessing.get_context("spawn")  # a copy of a process with threads may hang
    progress_queue = context.Queue()
    with ProcessPoolExecutor(
        number,
        context,
        initializer=_start_worker,
        initargs=(progress_queue, native_library.get_native_library_path()),
    ) as pool:
        before = set(multiprocessing.active_children())
        try:
            # Workers inherit the blocked signal, so Ctrl-C reaches this process alone, which then
            # ends them all. Otherwise each worker would print a traceback of its own.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            futures: list[Future[R]] = []
            for place, piece in enumerate(pieces):
                futures.append(pool.submit(_run_piece, work, place, piece))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            return _collect_results(futures, progress_queue, told, done)
        except BaseException:
            # `shutdown` waits for pieces that run, for minutes perhaps: the workers are ended.
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


class InOrder(Generic[K, R]):
    """Passes results on in the order of `keys`, although they come in any order."""

    def __init__(self, keys: Iterable[K], following: Callable[[R], None]) -> None:
        self._keys = iter(keys)
        self._next_key = next(self._keys, None)
        self._following = following
        self._early: dict[K, R] = {}

    def put_result(self, key: K, result: R) -> None:
        """Add one result and pass on all that are next in order."""
        self._early[key] = result
        while self._next_key is not None and self._next_key in self._early:
            self._following(self._early.pop(self._next_key))
            self._next_key = next(self._keys, None)


def _run_here(
    work: Callable[[T, TellProgress], R], piece: T, tell: TellProgress, done: Callable[[R], None]
) -> R:
    result = work(piece, tell)
    done(result)
    return result


def _collect_results(
    futures: list[Future[R]],
    progress_queue: Any,
    told: TellProgress,
    on_result: Callable[[R], None],
) -> list[R]:
    parts = [0.0] * len(futures)
    left = set(futures)
    while left:
        done, left = wait(left, timeout=_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            on_result(future.result())
            parts[futures.index(future)] = 1.0
        while True:
            try:
                place, part = progress_queue.get_nowait()
            except queue.Empty:
                break
            # A message may come after its piece's result: progress never goes back.
            parts[place] = max(parts[place], part)
        told(sum(parts) / len(parts))
    return [future.result() for future in futures]


def _start_worker(progress_queue: Any, library: Path | None) -> None:
    global _progress_queue
    _progress_queue = progress_queue
    native_library.adopt_native_library(library)


def _run_piece(work: Callable[[T, TellProgress], R], place: int, piece: T) -> R:
    last = 0.0

    def tell(part: float) -> None:
        nonlocal last
        if part - last >= _STEP:
            last = part
            _progress_queue.put((place, part))

    return work(piece, tell)


def _scale_progress(told: TellProgress, place: int, number: int) -> TellProgress:
    return lambda part: told((place + part) / number)
