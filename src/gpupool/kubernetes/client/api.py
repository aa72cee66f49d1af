"""Sends requests to the API server: JSON in, JSON out, and watches. It knows none of our objects.

It speaks plain HTTP (`http_connection`) instead of using a typed client: the same 2,000 releases
cost a typed client two to three times the CPU time (measured; see bench/kubernetes), and the few
shapes that are read are plain JSON.
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
from gpupool.base.backoff import Backoff
from gpupool.base.errors import ApiServerRejection, GpupoolError, ServiceUnavailable
from gpupool.kubernetes.client.connection import ServerConnection
from gpupool.kubernetes.client.http_answer import HttpAnswer
from gpupool.kubernetes.client.http_connection import ConnectionPool, HttpConnection
from gpupool.kubernetes.client.http_pool import HttpRequest, ServerAddress

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
#: Media type of an answer with the metadata alone, for writes whose result is known anyway.
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#: Seconds that one answer may take.
ANSWER_SECONDS = 30.0
#: Seconds that a pass with several requests in a row may take before it counts as hanging.
ROUND_SECONDS = 10 * ANSWER_SECONDS
#: Seconds after which a watch is ended and begun again, so that a connection that died silently is
#: noticed.
WATCH_SECONDS = 300
SILENCE_SECONDS = WATCH_SECONDS + 30.0
#: Objects per page of a list, as kubectl and client-go ask for.
PAGE = 500
#: HTTP status of an API server that limits requests (API priority and fairness).
BUSY = 429
#: Seconds between two attempts after an error.
FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 10.0
#: The API server names the writer of a field by it.
AGENT = f"User-Agent: gpupool/{__version__}\r\n"
_LATER = (408, BUSY, 500, 502, 503, 504)

log = logging.getLogger(__name__)


class ExpiredWatchError(Exception):
    """The server has forgotten the version that a watch begins at: the objects must be listed."""


class KubeApi:
    """One client with its connections. `async with KubeApi(connection) as api`.

    Watches have a pool of their own: each keeps its connection for minutes, and requests would have
    that many fewer.
    """

    def __init__(self, connection: ServerConnection, connections: int = 16) -> None:
        self.connection = connection
        self._limit = connections
        self._http: ConnectionPool | None = None
        self._watching: ConnectionPool | None = None
        #: Requests sent so far, watches included. Tests and benches count what a decision costs the
        #: API server.
        self.requests = 0

    async def __aenter__(self) -> KubeApi:
        server = ServerAddress(self.connection.url, self.connection.tls)
        self._http = ConnectionPool(server, self._limit)
        self._watching = ConnectionPool(server)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for lines in (self._http, self._watching):
            assert lines is not None
            lines.close()

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self.request("GET", path, query=query)

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self.request("POST", path, body)

    async def patch(
        self, path: str, body: Any, kind: str = MERGE, accept: str = JSON
    ) -> dict[str, Any]:
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
        """Send a request and return its answer.

        Raises:
            ApiServerRejection: the server refuses the request.
            ServiceUnavailable: the server cannot be reached, or is busy.
        """
        return _read_object(await self._send_request(method, path, body, kind, accept, query))

    async def get_text(self, path: str) -> str:
        """Return an answer that is no object, such as a pod's metrics; raises what `request` does."""
        return (await self._send_request("GET", path, None, "text/plain", "*/*", None)).decode(
            "utf-8", "replace"
        )

    async def _send_request(
        self,
        method: str,
        path: str,
        body: Any,
        kind: str,
        accept: str,
        query: Mapping[str, str] | None,
    ) -> bytes:
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        request = self._build_request(method, path, query or {}, kind, accept, data)
        assert self._http is not None, "used outside of its block"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status, text = await self._http.send_request(request)
        except OSError as error:  # TimeoutError is one
            raise ServiceUnavailable(
                f"the API server at {self.connection.url} does not answer: {error!r}"
            ) from None
        self._raise_refusal(status, text)
        return text

    def _raise_refusal(self, status: int, text: bytes) -> None:
        # The token may have expired before its time, as after the cluster's keys were changed.
        if status == 401:
            self.connection.discard_token()
        if status >= 300:
            raise _build_refusal(status, text)

    async def list_objects(self, path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        """Return every object, read page by page, and the version from which a watch goes on."""
        items: list[dict[str, Any]] = []
        page_query = {"limit": str(PAGE), **query}
        while True:
            page = await self.get(path, **page_query)
            items += page["items"]
            more = page["metadata"].get("continue", "")
            if not more:
                return items, page["metadata"]["resourceVersion"]
            page_query["continue"] = more

    async def watch_changes(
        self, path: str, version: str, **query: str
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield changes since that version, until the server ends the watch.

        Yields:
            ADDED, MODIFIED, DELETED or BOOKMARK, and the object.

        Raises:
            ExpiredWatchError: the server has forgotten the version.
            ApiServerRejection: the server refuses the watch.
            ServiceUnavailable: the connection broke, or the server is busy.
        """
        asked = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", **query}
        asked["timeoutSeconds"] = str(WATCH_SECONDS)
        request = self._build_request("GET", path, asked, JSON, JSON, None)
        assert self._watching is not None, "used outside of its block"
        try:
            async with self._watching.open_answer(request, ANSWER_SECONDS) as (line, answer):
                if answer.status >= 300:
                    try:
                        self._raise_refusal(
                            answer.status,
                            b"".join([piece async for piece in _read_pieces(line, answer)]),
                        )
                    except GpupoolError as error:
                        raise _expired_or(error) from None
                async for text in _read_lines(line, answer):
                    event = _read_object(text)
                    if event["type"] == "ERROR":
                        told = event["object"]
                        raise _expired_or(_build_refusal(told.get("code", 500), text))
                    yield event["type"], event["object"]
        except OSError as error:
            raise ServiceUnavailable(f"the watch of {path} broke off: {error!r}") from None

    def _build_request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        kind: str,
        accept: str,
        body: bytes | None,
    ) -> HttpRequest:
        self.requests += 1
        try:
            bearer = self.connection.read_token()
        except OSError as error:
            raise ServiceUnavailable(f"the token cannot be read: {error}") from None
        who = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
        said = f"Content-Type: {kind}\r\n" if body is not None else ""
        target = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path
        return HttpRequest(method, target, f"Accept: {accept}\r\n{AGENT}{said}{who}", body)


async def _read_pieces(line: HttpConnection, answer: HttpAnswer) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(SILENCE_SECONDS):
            piece = await line.read_more(answer)
        if not piece:
            return
        yield piece


async def _read_lines(line: HttpConnection, answer: HttpAnswer) -> AsyncIterator[bytes]:
    """Yield the lines of an answer, of any length."""
    rest = b""
    async for piece in _read_pieces(line, answer):
        *lines, rest = (rest + piece).split(b"\n")
        for one in lines:
            if one:
                yield one


def _read_object(text: bytes) -> dict[str, Any]:
    """Read an answer. Raises ServiceUnavailable: a load balancer answers in place of its servers."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = text[:200].decode("utf-8", "replace")
        raise ServiceUnavailable(f"the API server's answer is no object: {said}")
    return found


def _build_refusal(status: int, text: bytes) -> GpupoolError:
    try:
        told = json.loads(text)
        if not isinstance(told, dict):
            raise ValueError("no object")
        told = told.get("object", told)
        reason = told.get("reason", "")
        message = told.get("message", "")
        details = told.get("details")
    except ValueError:
        reason = ""
        message = text[:200].decode("utf-8", "replace")
        details = None
    causes = [cause.get("reason") for cause in (details or {}).get("causes") or ()]
    # An eviction that a disruption budget forbids is answered with 429 too, but it is a refusal:
    # the server is not busy, and asking again at once does not help.
    if "DisruptionBudget" in causes:
        message = " ".join([message, *(cause.get("message", "") for cause in details["causes"])])
    if status in _LATER and "DisruptionBudget" not in causes:
        return ServiceUnavailable(
            f"the API server answers {status} {reason}: {message}", status=status
        )
    return ApiServerRejection(message or f"{status} {reason}", status=status, reason=reason)


def _expired_or(error: GpupoolError) -> Exception:
    return (
        ExpiredWatchError()
        if isinstance(error, ApiServerRejection) and error.details.get("status") == 410
        else error
    )


def create_backoff(
    first_seconds: float = FIRST_PAUSE_SECONDS, last_seconds: float = LAST_PAUSE_SECONDS
) -> Backoff:
    """Return the pauses between attempts to reach the API server."""
    return Backoff(random.random, first_seconds=first_seconds, last_seconds=last_seconds)
