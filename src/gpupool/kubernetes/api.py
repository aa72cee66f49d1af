"""Requests to the API server: JSON in, JSON out, and watches that go on. It knows no object of ours and no rule.

Plain HTTP (`http_lines`) and not a typed client: the same 2,000 releases cost a typed one two to three times the
processor time (measured; see bench/kubernetes), and the few shapes that we read are plain JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from gpupool import __version__
from gpupool.base.errors import ApiRefused, GpupoolError, Unavailable
from gpupool.kubernetes.connection import Connection
from gpupool.kubernetes.http_answer import Answer
from gpupool.kubernetes.http_lines import Line, Lines
from gpupool.kubernetes.http_wire import Request, Server

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
SILENCE_SECONDS = WATCH_SECONDS + 30.0
PAGE = 500
BUSY = 429
AGENT = f"User-Agent: gpupool/{__version__}\r\n"
"""The API server names the writer of a field by it."""
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
        self._http: Lines | None = None
        self._watching: Lines | None = None
        self.requests = 0
        """Sent so far, watches included: what a decision costs the API server is counted in tests and benches."""

    async def __aenter__(self) -> KubeApi:
        server = Server(self.connection.url, self.connection.tls)
        self._http = Lines(server, self._limit)
        self._watching = Lines(server)  # no limit: so many as there are watches
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lines in (self._http, self._watching):
            assert lines is not None
            lines.close()

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
        request = self._request(method, path, query or {}, kind, accept, data)
        assert self._http is not None, "used outside of its block"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status, text = await self._http.ask(request)
        except OSError as error:  # TimeoutError is one
            raise Unavailable(f"the API server at {self.connection.url} does not answer: {error!r}") from None
        self._judge(status, text)
        return text

    def _judge(self, status: int, text: bytes) -> None:
        if status == 401:
            self.connection.unknown()
        if status >= 300:
            raise _refusal(status, text)

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
        request = self._request("GET", path, asked, JSON, JSON, None)
        assert self._watching is not None, "used outside of its block"
        try:
            async with self._watching.begun(request) as (line, answer):
                if answer.status >= 300:
                    try:
                        self._judge(answer.status, b"".join([piece async for piece in _pieces(line, answer)]))
                    except GpupoolError as error:
                        raise _expired_or(error) from None
                async for text in _lines(line, answer):
                    event = json.loads(text)
                    if event["type"] == "ERROR":
                        told = event["object"]
                        raise _expired_or(_refusal(told.get("code", 500), text))
                    yield event["type"], event["object"]
        except OSError as error:
            raise Unavailable(f"the watch of {path} broke off: {error!r}") from None

    def _request(
        self, method: str, path: str, query: Mapping[str, str], kind: str, accept: str, body: bytes | None
    ) -> Request:
        self.requests += 1
        bearer = self.connection.bearer()
        who = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
        said = f"Content-Type: {kind}\r\n" if body is not None else ""
        target = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path
        return Request(method, target, f"Accept: {accept}\r\n{AGENT}{said}{who}", body)


async def _pieces(line: Line, answer: Answer) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(SILENCE_SECONDS):
            piece = await line.more(answer)
        if not piece:
            return
        yield piece


async def _lines(line: Line, answer: Answer) -> AsyncIterator[bytes]:
    """Lines of any length."""
    rest = b""
    async for piece in _pieces(line, answer):
        *lines, rest = (rest + piece).split(b"\n")
        for one in lines:
            if one:
                yield one


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
