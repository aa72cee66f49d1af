"""How many previews a user may ask for: a form asks with every change, a script without end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpupool.base.errors import TooManyRequests
from gpupool.base.units import NANOS_PER_SECOND

#: Previews that a user may ask for at once, and how many more each second. A person who drags a
#: slider makes about four a second.
BURST = 20
PER_SECOND = 5
#: Users after which those whose buckets are full again are forgotten.
_MANY_USERS = 10_000


class PreviewBudget:
    """A bucket of tokens for each user. Thread-safe; in memory, so a restart fills all buckets."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """Take a clock that never goes back, in nanoseconds."""
        self._clock = clock
        self._lock = threading.Lock()
        #: By user: tokens at an instant; a user whose bucket is full is forgotten.
        self._buckets: dict[int, tuple[float, int]] = {}

    def spend(self, user_id: int) -> None:
        """Take a token of the user.

        Raises:
            TooManyRequests: The user's bucket is empty.
        """
        now_ns = self._clock()
        with self._lock:
            tokens = self._fill(user_id, now_ns)
            if tokens < 1:
                seconds = max(1, round((1 - tokens) / PER_SECOND))
                raise TooManyRequests(
                    f"{BURST} previews at once and {PER_SECOND} a second are answered, this is one more",
                    hint="ask again in a second; what a form shows need not follow every key",
                    open=BURST,
                    most=BURST,
                    retry_after_seconds=seconds,
                )
            self._buckets[user_id] = tokens - 1, now_ns
            if len(self._buckets) > _MANY_USERS:
                self._forget_full(now_ns)

    def _fill(self, user_id: int, now_ns: int) -> float:
        tokens, since_ns = self._buckets.get(user_id, (float(BURST), now_ns))
        return min(float(BURST), tokens + (now_ns - since_ns) * PER_SECOND / NANOS_PER_SECOND)

    def _forget_full(self, now_ns: int) -> None:
        for user_id in list(self._buckets):
            if self._fill(user_id, now_ns) >= BURST:
                del self._buckets[user_id]
