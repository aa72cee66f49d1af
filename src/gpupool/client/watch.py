"""Every event once, in order, over any number of broken connections and restarts of the pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from gpupool.base.errors import PoolNotRunning, Unavailable
from gpupool.client.transport import Api

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


def watch(
    api: Api,
    after: int = 0,
    *,
    kinds: frozenset[str] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Events with a number above `after`, as they come; never ends by itself.

    The number of the last event is where a new connection begins, so none is lost and none comes
    twice. While the pool is away it is tried again, ever more slowly up to 5 s; one that is not there at
    the start raises PoolNotRunning.
    """
    wait = FIRST_PAUSE_SECONDS
    try:
        api.request("GET", "/healthz")
    except Unavailable as error:
        if isinstance(error, PoolNotRunning):
            raise  # any other one comes from a pool that is there and not well: it has events all the same
    while True:
        try:
            for event in api.stream("GET", "watch", {"after": after}):
                wait = FIRST_PAUSE_SECONDS
                if event["seq"] <= after:
                    continue  # a pool that repeats itself
                after = event["seq"]
                if kinds is None or event["kind"] in kinds:
                    yield event
        except Unavailable:
            pause(wait)
            wait = min(2 * wait, LONGEST_PAUSE_SECONDS)
        else:
            pause(FIRST_PAUSE_SECONDS)
