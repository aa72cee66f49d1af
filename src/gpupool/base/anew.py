"""Restarts a process in place, under the same pid (docs/decisions/0014).

The program is executed again: its descriptors, memory and threads are fresh; its parent, output and
jobs stay. To a store and to other processes it looks like a kill and an immediate start.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

#: Environment variable of a process that was restarted: when, in seconds since 1970, by commas.
VARIABLE: Final = "GPUPOOL_BEGAN_ANEW"
#: Tells a server to stop and to restart in place; `gpupool restart` sends it.
RESTART_SIGNAL: Final = signal.SIGUSR2
#: Restarts within `WINDOW_SECONDS`; after so many the process ends with `EX_SOFTWARE`.
MOST_TIMES: Final = 5
WINDOW_SECONDS: Final = 600.0
#: Options with a value that only the first start can use: the descriptor has been closed since.
_ONCE: Final = frozenset({"--ready-fd"})

#: Attempts to execute while the machine is short of memory or descriptors, and the pause between
#: them in seconds: together the seconds that a shortage may last.
_ATTEMPTS: Final = 100
_PAUSE_SECONDS: Final = 0.1

log = logging.getLogger(__name__)


def begin_anew(why: str, *, counted: bool = True) -> NoReturn:
    """Execute this program again, or end the process after too many restarts. Any thread may call.

    Args:
        why: What failed, for the log.
        counted: Whether this restart counts towards `MOST_TIMES`; one without a failure does not.
    """
    _repeat_while_short(lambda: _begin(why, counted))


def _begin(why: str, counted: bool) -> None:
    earlier = list_recent_restarts(os.environ, time.time())
    if counted and len(earlier) >= MOST_TIMES:
        log.critical(
            "%s failed %d times within %.0f s: the process ends",
            why,
            len(earlier) + 1,
            WINDOW_SECONDS,
        )
        # Not sys.exit: any thread may call this, and SystemExit ends only the thread that raises
        # it.
        os._exit(os.EX_SOFTWARE)
    log.critical("%s cannot go on: the process begins anew", why)
    now = (time.time(),) if counted else ()
    _execute(tuple(earlier) + now)


def begin_anew_as_told() -> NoReturn:
    """Execute this program again because `gpupool restart` asked for it, in the version installed.

    Call it after the program has stopped its work.
    """
    log.info("the process begins anew, as it was told")
    _repeat_while_short(lambda: _execute(tuple(list_recent_restarts(os.environ, time.time()))))


def _repeat_while_short(execute: Callable[[], None]) -> NoReturn:
    """Execute the program as soon as the machine has what that needs, or end the process.

    An error must not leave here: the caller's thread would end, and the other threads would keep a
    process alive that serves no request.
    """
    try:
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(MemoryError, OSError):
                execute()
            time.sleep(_PAUSE_SECONDS)
    finally:
        os._exit(os.EX_SOFTWARE)


def _execute(times: tuple[float, ...]) -> NoReturn:
    for handler in logging.getLogger().handlers:
        handler.flush()
    environ = {**os.environ, VARIABLE: ",".join(f"{at:.0f}" for at in times)}
    # `orig_argv` still has the interpreter's own options, which `argv` has lost.
    os.execve(sys.executable, list_repeatable_words(sys.orig_argv), environ)


def list_recent_restarts(environ: Mapping[str, str], now: float) -> list[float]:
    """List when this process was restarted within the last `WINDOW_SECONDS`, in seconds."""
    texts = environ.get(VARIABLE, "").split(",")
    times = [float(text) for text in texts if text.isdigit()]
    return [at for at in times if 0 <= now - at < WINDOW_SECONDS]


def list_repeatable_words(words: Sequence[str]) -> list[str]:
    """Return the command line without the options that only the first start can use."""
    kept = list[str]()
    skip = False
    for word in words:
        if not skip and word not in _ONCE:
            kept.append(word)
        skip = word in _ONCE
    return kept
