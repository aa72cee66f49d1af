"""Lists objects and watches their changes without end, and restores the whole state after a break.

`watch_objects` calls `note(object, gone)` for every change and `synced` after each list. A watch
that ended goes on from the last version it reported. So does one whose connection was lost while
the server stayed. Otherwise the objects are listed again, and those that are missing are noted as
gone: a server that comes back may have an older copy of its store, and a watch from a version that
it has not reached yet is not refused but silent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gpupool.base.backoff import Backoff
from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.kubernetes.client.api import BUSY, ExpiredWatchError, KubeApi, create_backoff

log = logging.getLogger(__name__)


class ServerAway(Exception):
    """The server was away, and what comes back may have an older copy of its store."""


#: Seconds below which a watch without any news was refused rather than ended, as client-go counts.
SHORTEST_SECONDS = 1.0
Note = Callable[[dict[str, Any], bool], None]
EVERYTHING: Mapping[str, str] = MappingProxyType({})


async def watch_objects(
    api: KubeApi,
    path: str,
    note: Note,
    synced: Callable[[], None],
    *,
    query: Mapping[str, str] = EVERYTHING,
    listed: Note | None = None,
    begins: Callable[[], None] = lambda: None,
    lasting: bool = True,
) -> None:
    """Watch until cancelled; never returns.

    Args:
        note: takes each change, and each object of a list unless `listed` is given.
        synced: called after each list.
        listed: takes the objects of a list instead of `note`. A list is the whole state, whatever
            was reported before.
        begins: called before a list is requested.
        lasting: False for a caller that compares several lists, each of which would come back at
            its own time: the watch then ends when the server was away.

    Raises:
        ServerAway: the server was away, and `lasting` is False.
    """
    known: dict[str, dict[str, Any]] = {}
    backoff = create_backoff()
    loop = asyncio.get_running_loop()
    version = ""
    while True:
        try:
            if not version:
                begins()
                version = await _list_anew(api, path, known, listed or note, query)
                synced()
            began = loop.time()
            is_silent = True
            async for kind, found in api.watch_changes(path, version, **query):
                is_silent = False
                backoff.reset()
                version = found["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    _take_object(known, found, kind == "DELETED", note)
            # A server that is about to end takes a watch and ends it at once, again and again.
            if is_silent and loop.time() - began < SHORTEST_SECONDS:
                await asyncio.sleep(backoff.pause())
        except ExpiredWatchError:
            version = ""
            # A list that takes longer than the server remembers would be asked for without end.
            await asyncio.sleep(backoff.pause())
        except GpupoolError as error:
            log.warning("watching %s: %s", path, error)
            if (
                version
                and isinstance(error, ServiceUnavailable)
                and not await _goes_on(api, path, query, version, backoff)
            ):
                if not lasting:
                    raise ServerAway from None
                version = ""
            await asyncio.sleep(backoff.pause())


async def _goes_on(
    api: KubeApi, path: str, query: Mapping[str, str], version: str, backoff: Backoff
) -> bool:
    """Whether the server still has the state that was watched, so that only a connection was lost.

    A load balancer drops connections while its servers run on. Waits while the server is busy.
    """
    while True:
        try:
            now = (await api.get(path, limit="1", **query))["metadata"]["resourceVersion"]
            return int(now) >= int(version)
        except ServiceUnavailable as error:
            if error.details.get("status") != BUSY:
                return False
        except GpupoolError:
            return False
        await asyncio.sleep(backoff.pause())


async def _list_anew(
    api: KubeApi, path: str, known: dict[str, dict[str, Any]], note: Note, query: Mapping[str, str]
) -> str:
    items, version = await api.list_objects(path, **query)
    present = {_read_uid(item) for item in items}
    # Deletions first: an object of the same name that was created meanwhile has another uid.
    for uid in known.keys() - present:
        note(known.pop(uid), True)
    for item in items:
        _take_object(known, item, False, note)
    return version


def _take_object(
    known: dict[str, dict[str, Any]], found: dict[str, Any], gone: bool, note: Note
) -> None:
    key = _read_uid(found)
    if gone:
        known.pop(key, None)
    else:
        # Only what names the object: it is needed to report a deletion that no watch has seen.
        meta = found["metadata"]
        known[key] = {"metadata": {name: meta.get(name) for name in ("name", "namespace", "uid")}}
    note(found, gone)


def _read_uid(found: dict[str, Any]) -> str:
    return str(found["metadata"]["uid"])
