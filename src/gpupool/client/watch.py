"""Every event once, in order, over any number of broken connections and restarts of the pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpupool.base.errors import EventsReset, PoolNotRunning, ServiceUnavailable
from gpupool.client.transport import Api

#: Before the first attempt to reach a pool that is away; each pause is twice as long as the last.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
#: A restored pool numbers its events anew: the epoch tells its log from the old one.
EPOCH_HEADER = "gpupool-event-epoch"


def watch_events(
    api: Api,
    after: int = 0,
    *,
    epoch: str | None = None,
    kinds: frozenset[str] | None = None,
    on_reset: Callable[[EventsReset], object] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Events with a number above `after`, as they come; never ends by itself.

    The number of the last event is where a new connection begins, so none is lost and none comes
    twice. The epoch that the pool names goes along with it; `epoch` is that of `after`, where it is
    known.

    Once the pool has another event log, `on_reset` is called and the events after the end of that
    log follow. Without `on_reset` EventsReset is raised, as it is where `after` is refused and no
    epoch is known. While the pool is away it is tried again, ever more slowly up to 5 s; one that
    is not there at the start raises PoolNotRunning.
    """
    wait = FIRST_PAUSE_SECONDS
    known = epoch

    def note_epoch(headers: Mapping[str, str]) -> None:
        nonlocal known
        known = headers.get(EPOCH_HEADER, known)

    try:
        api.request("GET", "/healthz")
    except ServiceUnavailable as error:
        if isinstance(error, PoolNotRunning):
            raise  # any other one comes from a pool that is there and not well: it has events all the same
    while True:
        try:
            for event in api.stream(
                "GET", "watch", {"after": after, "epoch": known}, on_headers=note_epoch
            ):
                wait = FIRST_PAUSE_SECONDS
                if event["seq"] <= after:
                    continue  # a pool that repeats itself
                after = event["seq"]
                if kinds is None or event["kind"] in kinds:
                    yield event
        except EventsReset as error:
            if on_reset is None or known is None or "event_epoch" not in error.details:
                raise
            on_reset(error)
            after = int(error.details["last_event"])
            known = str(error.details["event_epoch"])
        except ServiceUnavailable:
            pause(wait)
            wait = min(2 * wait, LONGEST_PAUSE_SECONDS)
        else:
            pause(FIRST_PAUSE_SECONDS)
