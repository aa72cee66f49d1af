"""Threads of a load, and a client that watches, which the campaigns against one server and against
two share."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from gpupool.client.transport import Api
from gpupool.client.watch import watch_events


class Workers:
    """Threads that call `body` until `stopping` is set, each with a random stream of its own.
    `start`, `stop` once."""

    def __init__(self, body: Callable[[random.Random], None], seed: int, count: int) -> None:
        self.stopping = threading.Event()
        self.errors: list[BaseException] = []
        self._each = body
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(random.Random(f"{seed}-{n}"),),
                name=f"load-{n}",
                daemon=True,
            )
            for n in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Raises the first error that ended a thread."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(120)
        self.check()

    def check(self) -> None:
        if self.errors:
            raise self.errors[0]

    def _run(self, chance: random.Random) -> None:
        try:
            self._each(chance)
        except BaseException as error:  # noqa: BLE001  told to whoever stops the load
            self.errors.append(error)


class _OverError(Exception):
    pass


class Watcher:
    """A client that watches over all restarts and takeovers. `seen` grows in its own thread."""

    def __init__(self, api: Api) -> None:
        self.seen: list[tuple[int, str, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(api,), name="watcher", daemon=True)
        self._thread.start()

    def _run(self, api: Api) -> None:
        try:
            for event in watch_events(api, pause=self._pause):
                self.seen.append((event["seq"], event["kind"], event["subject"]))
        except _OverError:
            return

    def _pause(self, seconds: float) -> None:
        if self._ended.wait(min(seconds, 0.5)):
            raise _OverError

    def leave(self) -> None:
        """Look for no other server once the one that is watched has gone."""
        self._ended.set()

    def end(self) -> None:
        """Once the pool is away."""
        self.leave()
        self._thread.join(60)
