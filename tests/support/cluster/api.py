"""A small client of the API server for tests and the rig itself. The product has its own; this one
is not it."""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from tests.support.cluster.waiting import POLL_SECONDS, wait_until

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
INITIALIZING = (
    "storage is (re)initializing"  # a new kind's first moments: the request was not looked at
)
INITIALIZING_LIMIT_SECONDS = 30

Object = dict[str, Any]


class RefusedError(Exception):
    """The API server answered with a status of 400 or more."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class NotAnsweredError(Exception):
    """No answer: nobody listens, or the connection broke."""


class Api:
    """One connection, opened when needed and again after it broke. For one thread at a time."""

    def __init__(self, port: int, context: ssl.SSLContext, token: str = "") -> None:
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=context, timeout=60
        )
        self._port, self._context, self._token = port, context, token

    @classmethod
    def of_certificate(cls, port: int, root: Path, certificate: Path, key: Path) -> Self:
        context = ssl.create_default_context(cafile=str(root))
        context.load_cert_chain(certificate, key)
        return cls(port, context)

    @classmethod
    def of_token(cls, port: int, root: Path, token: str) -> Self:
        return cls(port, ssl.create_default_context(cafile=str(root)), token)

    def another(self) -> "Api":
        """The same credentials on a connection of its own, for another thread."""
        return Api(self._port, self._context, self._token)

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> Object:
        return self._object("GET", path)

    def find(self, path: str) -> Object | None:
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except RefusedError as refusal:
            if refusal.status == http.client.NOT_FOUND:
                return None
            raise

    def text(self, path: str) -> str:
        return self.request("GET", path)

    def create(self, path: str, body: Object) -> Object:
        return self._object("POST", path, body)

    def put(self, path: str, body: Object) -> Object:
        return self._object("PUT", path, body)

    def merge(self, path: str, patch: Object) -> Object:
        return self._object("PATCH", path, patch, MERGE)

    def json_patch(self, path: str, operations: list[Object]) -> Object:
        return self._object("PATCH", path, operations, JSON_PATCH)

    def apply(self, path: str, body: Object, manager: str = "tests") -> Object:
        """Server-side apply: make or change, whichever it takes."""
        return self._object("PATCH", f"{path}?fieldManager={manager}&force=true", body, APPLY)

    def delete(self, path: str) -> Object:
        return self._object("DELETE", path)

    def answers(self, path: str) -> bool:
        """Whether a GET is answered with success."""
        try:
            self.request("GET", path)
        except (RefusedError, NotAnsweredError):
            return False
        return True

    def until(self, path: str, condition: Callable[[Object], bool], seconds: float = 60) -> Object:
        """The object once the condition holds for it. Raises ClusterError with its last state when
        it never does."""
        last: Object | None = None

        def holds() -> bool:
            nonlocal last
            last = self.find(path)
            return last is not None and condition(last)

        wait_until(
            holds,
            seconds,
            lambda: f"{path} is not as expected after {seconds:.0f} s: {json.dumps(last)}",
        )
        assert last is not None
        return last

    def until_gone(self, path: str, seconds: float = 60) -> None:
        wait_until(
            lambda: self.find(path) is None,
            seconds,
            lambda: f"{path} is still there after {seconds:.0f} s",
        )

    def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> str:
        """One request, its answer's text. Raises RefusedError and NotAnsweredError."""
        deadline = time.monotonic() + INITIALIZING_LIMIT_SECONDS
        while True:
            try:
                return self._request_once(method, path, body, content_type)
            except RefusedError as refusal:
                if INITIALIZING not in refusal.body or time.monotonic() > deadline:
                    raise
            except NotAnsweredError as broken:
                # A connection that nobody used for minutes is closed by the server: that is noticed
                # only by using it.
                stale = isinstance(broken.__cause__, http.client.RemoteDisconnected)
                if not stale or method == "POST" or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def follow(self, path: str) -> Iterator[None]:
        """One turn for each line of an answer that goes on, until the server or `interrupt` ends it.

        Raises:
            RefusedError: It was not begun.
            NotAnsweredError: It broke.
        """
        try:
            self._connection.request("GET", path, None, self._headers(JSON, JSON))
            answer = self._connection.getresponse()
            if answer.status >= http.client.BAD_REQUEST:
                raise RefusedError(answer.status, answer.read().decode(errors="replace"))
            while answer.readline():
                yield
        # ValueError: the socket was shut down by `interrupt` while it was read.
        except (OSError, ValueError, http.client.HTTPException) as broken:
            raise NotAnsweredError(f"GET {path}: {broken}") from broken

    def interrupt(self) -> None:
        """End what another thread reads from this connection. Idempotent."""
        line = self._connection.sock
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def download(self, path: str) -> bytes:
        """An answer that is no text. Raises RefusedError and NotAnsweredError."""
        return self._read_once("GET", path, None, JSON, "*/*")

    def _request_once(self, method: str, path: str, body: Any, content_type: str) -> str:
        return self._read_once(method, path, body, content_type, JSON).decode(errors="replace")

    def _read_once(
        self, method: str, path: str, body: Any, content_type: str, accept: str
    ) -> bytes:
        headers = self._headers(content_type, accept)
        try:
            self._connection.request(
                method, path, None if body is None else json.dumps(body), headers
            )
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as broken:
            self._connection.close()
            raise NotAnsweredError(f"{method} {path}: {broken}") from broken
        if answer.status >= http.client.BAD_REQUEST:
            raise RefusedError(answer.status, content.decode(errors="replace"))
        return content

    def _headers(self, content_type: str, accept: str) -> dict[str, str]:
        headers = {"Content-Type": content_type, "Accept": accept}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _object(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Object:
        content: Object = json.loads(self.request(method, path, body, content_type))
        return content


def is_healthy(url_host: str, port: int, path: str, *, tls: bool) -> bool:
    """Whether a program's health page says 200; its certificate is its own affair."""
    context = ssl._create_unverified_context() if tls else None
    connection = (
        http.client.HTTPSConnection(url_host, port, context=context, timeout=5)
        if tls
        else http.client.HTTPConnection(url_host, port, timeout=5)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
