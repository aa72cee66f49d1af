"""Requests to a pool over HTTP/1.1, with the standard library alone: repeats, streams, the way to
the leader.

Knows which requests may be sent again; must not know what a job or a card is. Addresses are in
`endpoints`, bytes in `connection`, texts in `messages`, the choice among several servers in
`leader` (docs/decisions/0002).
"""

from __future__ import annotations

import json
import os

from gpupool.base.errors import ExpiredLease, GpupoolError, PoolLost, PoolNotRunning, StandbyServer
from gpupool.client.connection import ANSWER_SECONDS, BrokenConnectionError, PoolConnection
from gpupool.client.endpoints import PoolEndpoint, list_endpoints
from gpupool.client.leader import LeaderSearch, ServerCandidates
from gpupool.client.messages import SAFE_METHODS, read_answer, request_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from gpupool.base.client_settings import ClientSettings
    from gpupool.client.streams.byte_connection import ByteConnection

#: A stream sends a blank line every 15 s; three of them missing means the pool is gone.
QUIET_SECONDS = 45.0


class Api:
    """Requests to one pool over a connection that is kept; `str(api.endpoint)` says which pool it
    is.

    With several servers, requests go to the leader. With `follow=False` a request that another
    server may have to answer raises first, for a caller that must begin anew with a new leader.
    Belongs to one thread.
    """

    def __init__(self, settings: ClientSettings, *, follow: bool = True) -> None:
        self.settings = settings
        self._candidates = ServerCandidates(list_endpoints(settings))
        self._follow = follow or not self._candidates.are_one_pool
        self._connection: PoolConnection | None = None
        self.etag: str | None = None
        """The generation that the last answer named; goes into `if_match` of the write that builds
        on it."""

    @property
    def endpoint(self) -> PoolEndpoint:
        return self._candidates.first

    @property
    def addresses(self) -> str:
        """Every server of the pool, as GPUPOOL_URL takes them."""
        return str(self._candidates)

    @property
    def local(self) -> bool:
        """Whether the pool is on this machine, reached over its Unix socket."""
        return self.endpoint.path is not None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        whole_state: bool = False,
    ) -> Any:
        """Send a request and return the answer's JSON: its text if it is not JSON, None if it is
        empty.

        A request that may be repeated is sent again once when the connection breaks: GET, HEAD and
        any with a key; PUT and DELETE get a key here.

        Args:
            path: relative to /api/v1/ unless it starts with `/`.
            timeout: seconds that this may block; ANSWER_SECONDS if it is None.
            whole_state: the body is the whole state of an object with no other writer; repeating it needs no key.

        Raises:
            GpupoolError: the error that the pool answered.
            PoolNotRunning: no pool listens.
            PoolLost: the answer did not come; the request may have been carried out.
        """
        if idempotency_key is None and not whole_state and method in ("PUT", "DELETE"):
            # A repetition without a key would take effect twice: it overwrites another client's
            # write in between, or its own first effect makes the answer "stale" or "not found".
            idempotency_key = os.urandom(16).hex()
        head, payload = request_message(method, path, body, query, idempotency_key)
        if if_match is not None:
            head.append(f"If-Match: {if_match}")
        again = self._follow and (
            method in SAFE_METHODS or whole_state or idempotency_key is not None
        )
        search = LeaderSearch(self._candidates, follow=self._follow)
        while True:
            try:
                return self._exchange(method, head, payload, again, timeout)
            except (PoolNotRunning, StandbyServer) as error:
                self._next_server(search, error)  # the request had no effect there
            except ExpiredLease as error:
                if not again:
                    self.close()
                    self._candidates.turn()
                    raise
                self._next_server(search, error)

    def _exchange(
        self, method: str, head: list[str], payload: bytes, again: bool, timeout: float | None
    ) -> Any:
        while True:
            connection = self._get_connection()
            try:
                connection.settimeout(ANSWER_SECONDS if timeout is None else timeout)
                connection.send(head, payload)
                status, headers, data = connection.answer(method)
            except BrokenConnectionError as error:
                self.close()
                if not again:
                    raise self._make_lost_error(str(error)) from None
                again = False
                continue
            except TimeoutError:
                self.close()
                waited = ANSWER_SECONDS if timeout is None else timeout
                raise self._make_lost_error(f"no answer within {waited:g} s") from None
            except BaseException:
                self.close()
                raise
            if headers.get("connection", "").lower() == "close":
                self.close()
            self.etag = headers.get("etag")
            return read_answer(status, headers, data, self.endpoint)

    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        on_headers: Callable[[Mapping[str, str]], object] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The objects of an NDJSON answer as they come, on a connection of its own; blank lines are
        skipped.

        `on_headers` gets the headers of the answer, their names in lower case, before the first
        object. Ends when the pool ends the answer. Raises PoolLost when it breaks off or goes
        quiet.
        """
        head, payload = request_message(method, path, None, query, None)
        search = LeaderSearch(self._candidates, follow=self._follow)
        while True:
            try:
                yield from self._stream(method, head, payload, on_headers)
                return
            except (PoolNotRunning, StandbyServer) as error:
                self._next_server(search, error)

    def _stream(
        self,
        method: str,
        head: list[str],
        payload: bytes,
        on_headers: Callable[[Mapping[str, str]], object] | None,
    ) -> Iterator[dict[str, Any]]:
        connection = self._connect()
        try:
            connection.settimeout(QUIET_SECONDS)
            connection.send(head, payload)
            status, headers = connection.head()
            if status >= 300:
                read_answer(
                    status, headers, connection.body(method, status, headers), self.endpoint
                )
            if on_headers is not None:
                on_headers(headers)
            rest = b""
            for piece in connection.pieces(headers):
                *lines, rest = (rest + piece).split(b"\n")
                yield from (json.loads(line) for line in lines if line.strip())
        except TimeoutError:
            raise self._make_lost_error(f"nothing came for {QUIET_SECONDS:g} s") from None
        except BrokenConnectionError as error:
            raise self._make_lost_error(str(error)) from None
        finally:
            connection.close()

    def upgrade(self, path: str) -> ByteConnection:
        """Turn a request into a connection of bytes, of its own (101 Switching Protocols).

        Raises what `request` raises; nothing is opened then.
        """
        from gpupool.client.streams.byte_connection import ByteConnection, switch_connection

        search = LeaderSearch(self._candidates, follow=self._follow)
        while True:
            try:
                connection = self._connect()
                try:
                    return ByteConnection(*switch_connection(connection, path))
                except BaseException:
                    connection.close()
                    raise
            except (PoolNotRunning, StandbyServer) as error:
                self._next_server(search, error)
            except BrokenConnectionError as error:
                raise self._make_lost_error(str(error)) from None
            except TimeoutError:
                raise self._make_lost_error("it opened no stream") from None

    def another(self) -> Api:
        """A second `Api` to the same pool, for another thread."""
        twin = Api(self.settings, follow=self._follow)
        twin._candidates = self._candidates.copy()
        return twin

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_server(self, search: LeaderSearch, error: GpupoolError) -> None:
        """Raise `error` unless another server may answer; the next request goes there."""
        if self._candidates.are_one_pool:
            self.close()
        search.next(error)

    def _get_connection(self) -> PoolConnection:
        if self._connection is not None and self._connection.is_stale():
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> PoolConnection:
        before = self._candidates.first
        connection = self._candidates.connect()
        if not self._follow and connection.endpoint is not before:
            connection.close()
            raise self._make_lost_error("it is another server's turn")
        return connection

    def _make_lost_error(self, reason: str) -> PoolLost:
        return PoolLost(
            f"the pool at {self.endpoint} stopped answering: {reason}",
            hint="look at it with: gpupool doctor",
        )
