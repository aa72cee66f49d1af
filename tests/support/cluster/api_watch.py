"""Says that objects of the API server have changed, so that they need not be read at intervals."""

import threading
from collections.abc import Callable, Sequence

from tests.support.cluster.api import Api, NotAnsweredError, RefusedError
from tests.support.cluster.waiting import POLL_SECONDS

#: Seconds after which the API server ends a watch; less than the connection's timeout.
WATCH_SECONDS = 30


class ApiWatch:
    """Watches lists, each on a connection and in a thread of its own.

    Args:
        api: Its credentials are used.
        paths: The lists.
        notify: Is called in any thread after a change, and whenever a watch begins or ends.
    """

    def __init__(self, api: Api, paths: Sequence[str], notify: Callable[[], None]) -> None:
        self._notify = notify
        self._ended = threading.Event()
        self._watches = [(api.another(), path) for path in paths]
        self._threads = [
            threading.Thread(target=self._follow, args=watch, name="api-watch", daemon=True)
            for watch in self._watches
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when no thread is left."""
        self._ended.set()
        for thread, (api, _) in zip(self._threads, self._watches, strict=True):
            while thread.is_alive():
                api.interrupt()
                thread.join(POLL_SECONDS)

    def _follow(self, api: Api, path: str) -> None:
        query = f"watch=true&timeoutSeconds={WATCH_SECONDS}"
        while not self._ended.wait(POLL_SECONDS):
            try:
                for _ in api.follow(f"{path}{'&' if '?' in path else '?'}{query}"):
                    self._notify()
            except (NotAnsweredError, RefusedError):
                continue
            finally:
                api.close()
                self._notify()
