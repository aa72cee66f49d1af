"""What `gpupool burn` says while it loads a card: lines from any thread, changes of memory."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from gpupool.base.units import MIB

#: Between two questions for the card's memory: an allocation that lasts longer is seen.
MEMORY_EVERY_SECONDS = 0.01


class LineWriter:
    """Writes what is said: for people a line a second, for programs everything as JSON.

    Lines are whole, from any thread.
    """

    def __init__(self, output: str) -> None:
        self._json = output == "json"
        self._lock = threading.Lock()

    def write_line(self, kind: str, text: str = "", **facts: Any) -> None:
        """Write one line: the text for people, kind and facts for programs."""
        # Facts without a text are for programs alone.
        if not self._json and not text:
            return
        line = json.dumps({"kind": kind, "pid": os.getpid(), **facts}) if self._json else text
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class MemoryWatch:
    """A thread that asks the driver for the card's memory and reports every change."""

    def __init__(self, driver: Any, wanted: bool, lines: LineWriter) -> None:
        self._driver = driver
        self._lines = lines
        self._end = threading.Event()
        self._thread = (
            threading.Thread(target=self._watch_memory, name="memory", daemon=True)
            if wanted
            else None
        )

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _watch_memory(self) -> None:
        # A CUDA context is current in the thread that made it, and in no other.
        self._driver.make_current()
        seen = -1
        for free, total in self._read_memory():
            if total != seen:
                seen = total
                text = f"the card shows {total // MIB} MiB"
                self._lines.write_line(
                    "memory", text, at_ns=time.monotonic_ns(), free_bytes=free, total_bytes=total
                )

    def _read_memory(self) -> Iterator[tuple[int, int]]:
        while True:
            yield self._driver.read_memory()
            if self._end.wait(MEMORY_EVERY_SECONDS):
                return
