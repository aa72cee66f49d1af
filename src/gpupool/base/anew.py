"""Beginning a process anew in its own place (docs/decisions/0014).

The program is executed again under the same pid: its descriptors, memory and threads are fresh, its parent, its output
and its jobs are as they were. To a store and to other processes it looks like a kill and an immediate start.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

VARIABLE: Final = "GPUPOOL_BEGAN_ANEW"
"""In the environment of a process that began anew: when, in seconds since the epoch, separated by commas."""
#: Tells a server to stop and to begin anew in its place; `gpupool restart` sends it.
RESTART_SIGNAL: Final = signal.SIGUSR2
#: So often within `WINDOW_SECONDS` a process begins anew; after that it ends with `EX_SOFTWARE`.
MOST_TIMES: Final = 5
WINDOW_SECONDS: Final = 600.0
#: Options with a value that only the first start can use: the descriptor has been closed since.
_ONCE: Final = frozenset({"--ready-fd"})

log = logging.getLogger(__name__)


def begin_anew(why: str, *, counted: bool = True) -> NoReturn:
    """Execute this program again; end the process where that has been done too often. From any thread.

    Beginning anew without a failure is not `counted`.
    """
    earlier = recent(os.environ, time.time())
    if counted and len(earlier) >= MOST_TIMES:
        log.critical("%s failed %d times within %.0f s: the process ends", why, len(earlier) + 1, WINDOW_SECONDS)
        os._exit(os.EX_SOFTWARE)
    log.critical("%s cannot go on: the process begins anew", why)
    now = (time.time(),) if counted else ()
    _execute(tuple(earlier) + now)


def begin_anew_as_told() -> NoReturn:
    """Execute this program again, after it has stopped: its parent keeps it, whatever version is installed now."""
    log.info("the process begins anew, as it was told")
    _execute(tuple(recent(os.environ, time.time())))


def _execute(times: tuple[float, ...]) -> NoReturn:
    for handler in logging.getLogger().handlers:
        handler.flush()
    environ = {**os.environ, VARIABLE: ",".join(f"{at:.0f}" for at in times)}
    os.execve(sys.executable, words_again(sys.orig_argv), environ)


def recent(environ: Mapping[str, str], now: float) -> list[float]:
    """When this process began anew within the last `WINDOW_SECONDS`."""
    said = (text for text in environ.get(VARIABLE, "").split(",") if text.isdigit())
    return [at for at in map(float, said) if 0 <= now - at < WINDOW_SECONDS]


def words_again(words: Sequence[str]) -> list[str]:
    """The command line without what only the first start can use."""
    kept = list[str]()
    skip = False
    for word in words:
        if not skip and word not in _ONCE:
            kept.append(word)
        skip = word in _ONCE
    return kept
