"""Finds work that was lost in a thread pool or an event loop for want of memory (docs/decisions/0014).

A thread of a pool that cannot allocate the lock on which it waits ends, and the pool still gives it
work, which is never done. The result of a callback that cannot be run is waited for without
end. An object that cannot be cleaned up keeps what it holds. None is a supervised body, and none
can be called again: the process is restarted.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from gpupool.base.supervision import BodyRegister, register


def watch_threads(known: BodyRegister = register) -> None:
    """End the process from now on when an unsupervised thread ends for want of memory.

    So it does when an error of that kind has no caller: one of a finalizer, or of the code of a
    library that handles errors.
    """
    before = threading.excepthook
    before_unraisable = sys.unraisablehook

    def on_end(args: threading.ExceptHookArgs) -> None:
        if is_memory_shortage(args.exc_value):
            known.end_process(args.thread.name if args.thread is not None else "a thread")
        before(args)

    def on_unraisable(args: sys.UnraisableHookArgs) -> None:
        if is_memory_shortage(args.exc_value):
            known.end_process(threading.current_thread().name)
        before_unraisable(args)

    threading.excepthook = on_end
    sys.unraisablehook = on_unraisable


def watch_loop(loop: asyncio.AbstractEventLoop, known: BodyRegister = register) -> None:
    """End the process from now on when a callback of the loop is lost for want of memory."""

    def on_error(where: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        try:
            # A protocol's own error closes its connection; only of a callback nothing is left.
            is_lost = "handle" in context and is_memory_shortage(context.get("exception"))
        except MemoryError:
            is_lost = True
        if is_lost:
            known.end_process("event-loop")
        where.default_exception_handler(context)

    loop.set_exception_handler(on_error)


def is_memory_shortage(error: BaseException | None) -> bool:
    """Whether an error says that memory could not be had; the lock's is CPython's own wording."""
    if isinstance(error, RuntimeError):
        return str(error) == "can't allocate lock"
    return isinstance(error, MemoryError)
