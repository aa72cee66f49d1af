"""A list and the watch that follows it, for as long as it takes: whatever breaks, the state is brought back whole.

`keep` calls `note(object, gone)` for every change and `synced` each time after a whole list. A watch that came to its
end goes on from the last version heard, and so does one whose connection was lost while the server is there and has
come no less far. Where the server has forgotten that version, or was away, it is listed again, and what is not in the
list any more is noted as gone: a server that comes back may have an older copy of its store, and a watch from a version
that it has not reached yet is not refused but silent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gpupool.base.errors import ApiRefused, GpupoolError, Unavailable
from gpupool.kubernetes.api import BUSY, Expired, KubeApi, Pause

log = logging.getLogger(__name__)


class Away(Exception):
    """The server was away, and what comes back may have an older copy of its store."""


Note = Callable[[dict[str, Any], bool], None]
EVERYTHING: Mapping[str, str] = MappingProxyType({})


async def keep(
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
    """Never returns; ends when it is cancelled. `begins` is called before a list is asked for.

    `listed` is told what stands in a list instead of `note`: that is what there is, whatever was told before. One that
    is not `lasting` raises Away once the server was: for who compares several lists, each of which would come back at
    its own time.
    """
    known: dict[str, dict[str, Any]] = {}
    pause, version = Pause(), ""
    while True:
        try:
            if not version:
                begins()
                version = await _relist(api, path, known, listed or note, query)
                synced()
            async for kind, found in api.changes(path, version, **query):
                pause.reset()
                version = found["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    _take(known, found, kind == "DELETED", note)
        except Expired:
            version = ""
        except GpupoolError as error:
            log.warning("watching %s: %s", path, error)
            if version and isinstance(error, Unavailable) and not await _goes_on(api, path, query, version, pause):
                if not lasting:
                    raise Away from None
                version = ""
            await pause.wait()


async def _goes_on(api: KubeApi, path: str, query: Mapping[str, str], version: str, pause: Pause) -> bool:
    """Whether the server answers, if only that it is busy, and has come as far: then a connection alone was lost, as
    happens behind whoever spreads load."""
    while True:
        try:
            now = (await api.get(path, limit="1", **query))["metadata"]["resourceVersion"]
            return int(now) >= int(version)
        except Unavailable as error:
            if error.details.get("status") != BUSY:
                return False
        except ApiRefused:
            return False
        await pause.wait()


async def _relist(
    api: KubeApi, path: str, known: dict[str, dict[str, Any]], note: Note, query: Mapping[str, str]
) -> str:
    items, version = await api.list(path, **query)
    present = {_key(item) for item in items}
    for key in [key for key in known if key not in present]:
        note(known.pop(key), True)
    for item in items:
        _take(known, item, False, note)
    return version


def _take(known: dict[str, dict[str, Any]], found: dict[str, Any], gone: bool, note: Note) -> None:
    key = _key(found)
    if gone:
        known.pop(key, None)
    else:
        meta = found["metadata"]
        known[key] = {"metadata": {name: meta.get(name) for name in ("name", "namespace", "uid")}}
    note(found, gone)


def _key(found: dict[str, Any]) -> str:
    return str(found["metadata"]["uid"])
