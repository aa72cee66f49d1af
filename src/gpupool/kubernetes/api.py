"""Requests to the API server: JSON in, JSON out, and watches that go on. It knows no object of ours and no rule.

Plain HTTP by aiohttp and not a typed client: the same 2,000 releases cost a typed one two to three times the processor
time (measured; see bench/kubernetes), and the few shapes that we read are plain JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any

import aiohttp

from gpupool.base.errors import ApiRefused, GpupoolError, Unavailable
from gpupool.kubernetes.connection import Connection

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""An answer without what the object says, where that is known anyway."""
ANSWER_SECONDS = 30.0
ROUND_SECONDS = 10 * ANSWER_SECONDS
"""What a task's round may take that asks several times in a row, each answer at the last moment."""
WATCH_SECONDS = 300
"""A watch is asked to end after that long and begun again, so that a connection that died silently is noticed."""
PAGE = 500
BUSY = 429
_LATER = (408, BUSY, 500, 502, 503, 504)

log = logging.getLogger(__name__)


class Expired(Exception):
    """A watch asked for changes since a version that the server has forgotten: list again."""


class KubeApi:
    """One client with its connections. `async with KubeApi(connection) as api`.

    Watches have a pool of their own: each keeps its connection for minutes, and requests would have that many fewer.
    """

    def __init__(self, connection: Connection, connections: int = 16) -> None:
        self.connection = connection
        self._limit = connections
        self._http: aiohttp.ClientSession | None = None
        self._watching: aiohttp.ClientSession | None = None
        self.requests = 0
        """Sent so far, watches included: what a decision costs the API server is counted in tests and benches."""

    async def __aenter__(self) -> KubeApi:
        self._http = self._pool(self._limit)
        self._watching = self._pool(0)  # no limit: so many as there are watches
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pool in (self._http, self._watching):
            assert pool is not None
            await pool.close()

    def _pool(self, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, ssl=self.connection.tls)
        return aiohttp.ClientSession(connector=connector, base_url=self.connection.url)

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self.request("GET", path, query=query)

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self.request("POST", path, body)

    async def patch(self, path: str, body: Any, kind: str = MERGE, accept: str = JSON) -> dict[str, Any]:
        return await self.request("PATCH", path, body, kind=kind, accept=accept)

    async def delete(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return await self.request("DELETE", path, body)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The answer. Raises ApiRefused where the server says no, Unavailable where it cannot be reached or is busy."""
        found: dict[str, Any] = json.loads(await self._ask(method, path, body, kind, accept, query))
        return found

    async def text(self, path: str) -> str:
        """What a path answers that is no object, such as another program's behind a pod's proxy. Raises the same."""
        return (await self._ask("GET", path, None, "text/plain", "*/*", None)).decode("utf-8", "replace")

    async def _ask(
        self, method: str, path: str, body: Any, kind: str, accept: str, query: Mapping[str, str] | None
    ) -> bytes:
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        self.requests += 1
        try:
            async with self._session.request(
                method, path, data=data, params=dict(query or {}), headers=self._headers(kind, accept), timeout=timeout
            ) as answer:
                text = await answer.read()
                if answer.status == 401:
                    self.connection.unknown()
                if answer.status >= 300:
                    raise _refusal(answer.status, text)
                return text
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"the API server at {self.connection.url} does not answer: {error!r}") from None

    async def list(self, path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        """Every object, page by page, and the version from which a watch goes on."""
        items: list[dict[str, Any]] = []
        more = ""
        while True:
            page = await self.get(path, limit=str(PAGE), **({"continue": more} if more else {}), **query)
            items += page["items"]
            more = page["metadata"].get("continue", "")
            if not more:
                return items, page["metadata"]["resourceVersion"]

    async def changes(self, path: str, version: str, **query: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """(ADDED, MODIFIED or DELETED, object) since that version, until the server ends the watch. Raises Expired."""
        asked = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", **query}
        asked["timeoutSeconds"] = str(WATCH_SECONDS)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS, sock_read=WATCH_SECONDS + 30)
        assert self._watching is not None, "used outside of its block"
        self.requests += 1
        try:
            async with self._watching.get(path, params=asked, headers=self._headers(), timeout=timeout) as answer:
                if answer.status == 401:
                    self.connection.unknown()
                if answer.status >= 300:
                    raise _expired_or(_refusal(answer.status, await answer.read()))
                async for line in _lines(answer.content):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        told = event["object"]
                        raise _expired_or(_refusal(told.get("code", 500), line))
                    yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"the watch of {path} broke off: {error!r}") from None

    @property
    def _session(self) -> aiohttp.ClientSession:
        assert self._http is not None, "used outside of its block"
        return self._http

    def _headers(self, kind: str = JSON, accept: str = JSON) -> dict[str, str]:
        bearer = self.connection.bearer()
        return {"Content-Type": kind, "Accept": accept, **({"Authorization": f"Bearer {bearer}"} if bearer else {})}


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: an object may be larger than a reader's line limit."""
    rest = b""
    async for piece in content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line:
                yield line


def _refusal(status: int, text: bytes) -> GpupoolError:
    try:
        told = json.loads(text)
        told = told.get("object", told)
        reason, message, details = told.get("reason", ""), told.get("message", ""), told.get("details")
    except ValueError:
        reason, message, details = "", text[:200].decode("utf-8", "replace"), None
    causes = [cause.get("reason") for cause in (details or {}).get("causes") or ()]
    if "DisruptionBudget" in causes:
        message = " ".join([message, *(cause.get("message", "") for cause in details["causes"])])
    if status in _LATER and "DisruptionBudget" not in causes:
        return Unavailable(f"the API server answers {status} {reason}: {message}", status=status)
    return ApiRefused(message or f"{status} {reason}", status=status, reason=reason)


def _expired_or(error: GpupoolError) -> Exception:
    return Expired() if isinstance(error, ApiRefused) and error.details.get("status") == 410 else error


class Pause:
    """How long to wait before trying again: longer each time, never in step with others; `reset` after a success."""

    def __init__(self, least: float = 0.1, most: float = 10.0) -> None:
        self._least, self._most, self._next = least, most, least

    def reset(self) -> None:
        self._next = self._least

    async def wait(self) -> None:
        await asyncio.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(self._most, self._next * 2)
