"""HTTP/1.1 to a pool over its Unix socket or TCP, with the standard library alone.

This module exists because `http.client` imports the e-mail parser and ssl, which costs more
than a whole `srun` (docs/decisions/0002). It knows requests, answers, problems and which
pool is meant; it must not know what a job or a card is. One `Api` belongs to one thread.
"""

from __future__ import annotations

import json
import os
import time
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812  # the class below socket.socket; `socket` imports enum

from gpupool import __version__
from gpupool.base.errors import (
    BadInput,
    GpupoolError,
    LeaseExpired,
    NotAllowed,
    PoolLost,
    PoolNotRunning,
    Standby,
    from_code,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from socket import socket as TcpSocket  # noqa: N812
    from typing import Any

    from gpupool.base.client_settings import ClientSettings

PREFIX = "/api/v1/"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
QUIET_SECONDS = 45.0
"""A stream sends a blank line every 15 s; three of them missing means the pool is gone."""
TAKEOVER_SECONDS = 15.0
"""So long a leader is looked for among several servers: three takeovers."""
SEARCH_SECONDS, QUICK_SECONDS, LOOK_SECONDS = 0.2, 1.0, 2.0
"""Between two rounds of looking; for one look; and how long a server may be silent before the others are asked."""
_MAX_LINE = 1 << 20
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:,")
_SAFE_METHODS = frozenset({"GET", "HEAD"})


class _BrokenError(Exception):
    """The connection ended before the answer did; what the request did is unknown."""


class Endpoint:
    """One place where a pool may listen: a Unix socket's path, or scheme, host and port."""

    __slots__ = ("base", "ca_file", "host", "implied", "path", "port", "tls", "token")

    def __init__(
        self,
        *,
        path: str | None = None,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        implied: bool = False,
    ) -> None:
        self.path, self.token, self.ca_file, self.implied = path, token, ca_file, implied
        self.tls, self.host, self.port, self.base = False, "", 0, ""
        if url is not None:
            self._read_url(url)

    def _read_url(self, url: str) -> None:
        scheme, mark, rest = url.partition("://")
        if scheme == "unix" and mark:
            self.path = rest
            return
        authority, _, base = rest.partition("/")
        host, colon, port = authority.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = authority, "443" if scheme == "https" else "80"
        if scheme not in ("http", "https") or not host or not port.isdigit():
            raise BadInput(f"{url!r} is not the address of a pool", hint="write it like https://host:8443")
        self.tls, self.host, self.port = scheme == "https", host.strip("[]"), int(port)
        self.base = "/" + base.strip("/") if base.strip("/") else ""

    def __str__(self) -> str:
        return self.path or f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.base}"


def endpoints(settings: ClientSettings) -> list[Endpoint]:
    """Where to look for the pool, first match first. Implied places are passed over when nobody answers."""
    if settings.state_dir is not None:
        return [Endpoint(path=os.path.join(settings.state_dir, "gpupool.sock"))]
    if settings.url:
        return _servers(settings.url, settings.token, settings.ca_file)
    saved = saved_login(settings)
    if saved:
        return _servers(saved["url"], settings.token or saved["token"], settings.ca_file or saved.get("ca_file"))
    from gpupool.base.client_settings import SYSTEM_SOCKET_TEXT

    own = os.path.join(settings.own_state_dir, "gpupool.sock")
    return [Endpoint(path=own, implied=True), Endpoint(path=SYSTEM_SOCKET_TEXT, implied=True)]


def _servers(urls: str, token: str | None, ca_file: str | None) -> list[Endpoint]:
    """The servers of one pool, by one address or several with commas between them."""
    return [Endpoint(url=url.strip(), token=token, ca_file=ca_file) for url in urls.split(",")]


def saved_login(settings: ClientSettings) -> dict[str, Any] | None:
    """What `gpupool login` kept, or None. Raises BadInput for a file that is not its own."""
    if settings.login_file is None:
        return None
    try:
        with open(settings.login_file, "rb") as file:
            saved = json.loads(file.read())
        return {"url": str(saved["url"]), "token": str(saved["token"]), **saved}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise BadInput(
            f"the saved login {settings.login_file} cannot be read: {error}", hint="gpupool login --forget"
        ) from None


class Api:
    """Requests to one pool over a connection that is kept; `str(api.endpoint)` says which pool it is.

    Where several servers are given, the leader is found unseen; with `follow=False` a request that another server may
    have to answer raises first, for a caller that must begin anew with a new leader.
    """

    def __init__(self, settings: ClientSettings, *, follow: bool = True) -> None:
        self.settings, self._follow = settings, follow
        self._candidates = endpoints(settings)
        self._several = len(self._candidates) > 1 and not self._candidates[0].implied
        """Servers of one pool, of which one leads; else places where a pool may be."""
        self._connection: _Connection | None = None
        self.etag: str | None = None
        """The generation that the last answer named; goes into `if_match` of the write that builds on it."""

    @property
    def endpoint(self) -> Endpoint:
        return self._candidates[0]

    @property
    def _follows(self) -> bool:
        return self._follow or not self._several

    @property
    def addresses(self) -> str:
        """Every server of the pool, as GPUPOOL_URL takes them."""
        return ",".join(sorted(map(str, self._candidates)) if self._several else [str(self.endpoint)])

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
        """The answer's JSON (text, if it is none; None, if it is empty). Blocks for at most `timeout` seconds.

        `path` is relative to /api/v1/ unless it starts with `/`. A request that may be repeated (GET, HEAD, any with a
        key; PUT and DELETE get a key here) is sent again once when the connection breaks. What tells
        the `whole_state` of an object that nothing else writes needs no key: a second effect is the first one.
        Raises the error that the pool answered, PoolNotRunning when nobody listens, PoolLost
        when the answer did not come; after PoolLost the request may have been carried out.
        """
        if idempotency_key is None and not whole_state and method in ("PUT", "DELETE"):
            # Sent again without a key they would take effect twice: over another client's write in between, or answered
            # with "stale" or "not found" because of their own first effect.
            idempotency_key = os.urandom(16).hex()
        head, payload = self._message(method, path, body, query, idempotency_key)
        if if_match is not None:
            head.append(f"If-Match: {if_match}")
        again = self._follows and (method in _SAFE_METHODS or whole_state or idempotency_key is not None)
        search = _Search(self)
        while True:
            try:
                return self._exchange(method, head, payload, again, timeout)
            except (PoolNotRunning, Standby) as error:
                search.next(error)  # nothing was done there
            except LeaseExpired as error:
                if not again:
                    self.turn()
                    raise
                search.next(error)

    def _exchange(self, method: str, head: list[str], payload: bytes, again: bool, timeout: float | None) -> Any:
        while True:
            connection = self._connected()
            try:
                connection.settimeout(ANSWER_SECONDS if timeout is None else timeout)
                connection.send(head, payload)
                status, headers, data = connection.answer(method)
            except _BrokenError as error:
                self.close()
                if not again:
                    raise self._lost(str(error)) from None
                again = False
                continue
            except TimeoutError:
                self.close()
                waited = ANSWER_SECONDS if timeout is None else timeout
                raise self._lost(f"no answer within {waited:g} s") from None
            except BaseException:
                self.close()
                raise
            if headers.get("connection", "").lower() == "close":
                self.close()
            self.etag = headers.get("etag")
            return _read_answer(status, headers, data, self.endpoint)

    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        on_headers: Callable[[Mapping[str, str]], object] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The objects of an NDJSON answer as they come, on a connection of its own; blank lines are skipped.

        `on_headers` gets the headers of the answer, their names in lower case, before the first object.
        Ends when the pool ends the answer. Raises PoolLost when it breaks off or goes quiet.
        """
        head, payload = self._message(method, path, None, query, None)
        search = _Search(self)
        while True:
            try:
                yield from self._stream(method, head, payload, on_headers)
                return
            except (PoolNotRunning, Standby) as error:
                search.next(error)

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
                _read_answer(status, headers, connection.body(method, status, headers), self.endpoint)
            if on_headers is not None:
                on_headers(headers)
            rest = b""
            for piece in connection.pieces(headers):
                *lines, rest = (rest + piece).split(b"\n")
                yield from (json.loads(line) for line in lines if line.strip())
        except TimeoutError:
            raise self._lost(f"nothing came for {QUIET_SECONDS:g} s") from None
        except _BrokenError as error:
            raise self._lost(str(error)) from None
        finally:
            connection.close()

    def another(self) -> Api:
        """A second one to the very same pool, for another thread."""
        twin = Api(self.settings, follow=self._follow)
        twin._candidates = list(self._candidates)
        return twin

    def close(self) -> None:
        """Give the connection up; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _message(
        self, method: str, path: str, body: Any, query: Mapping[str, Any] | None, key: str | None
    ) -> tuple[list[str], bytes]:
        target = path if path.startswith("/") else PREFIX + path
        lines = [method, f"{target}{_query(query)}", f"User-Agent: gpupool/{__version__}"]
        payload = b""
        if body is not None:
            payload = json.dumps(body, separators=(",", ":")).encode()
            lines.append("Content-Type: application/json")
        if body is not None or method not in ("GET", "HEAD", "DELETE"):
            lines.append(f"Content-Length: {len(payload)}")
        if key is not None:
            lines.append(f"Idempotency-Key: {key}")
        return lines, payload

    def _connected(self) -> _Connection:
        if self._connection is not None and self._connection.stale():
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> _Connection:
        missing: GpupoolError | None = None
        for candidate in list(self._candidates):
            try:
                connection = _Connection(candidate)
            except PoolNotRunning as error:
                missing = missing or error
                continue
            if self._several:
                moved = candidate is not self._candidates[0]
                self._candidates.remove(candidate)
                self._candidates.insert(0, candidate)
                connection.quiet = self._check_leads
                if moved and not self._follow:
                    connection.close()
                    raise self._lost("it is another server's turn")
            else:
                self._candidates = [candidate]
            return connection
        assert missing is not None
        if len(self._candidates) > 1 and not self._several:
            raise PoolNotRunning("no pool is running here", hint="start one: gpupool up")
        raise missing

    def turn(self) -> None:
        """Begin with another server the next time."""
        self.close()
        self._candidates.append(self._candidates.pop(0))

    def _check_leads(self) -> None:
        """Called while an answer is awaited: give the server up once another leads, as it may be stopped or cut off."""
        for other in self._candidates[1:]:
            if _leads(other):
                self._candidates.remove(other)
                self._candidates.insert(0, other)
                raise _BrokenError(f"{other} leads now")

    def _lost(self, why: str) -> PoolLost:
        return PoolLost(f"the pool at {self.endpoint} stopped answering: {why}", hint="look at it with: gpupool doctor")


class _Search:
    """Looking for the leader among several servers, for as long as a takeover may take."""

    def __init__(self, api: Api) -> None:
        self._api, self._tried = api, 0
        self._until: float | None = None

    def next(self, error: GpupoolError) -> None:
        """Turn to the next server, with a pause after each round. Raises `error` when the time is over."""
        servers = len(self._api._candidates)
        if not self._api._several:
            raise error
        self._until = self._until or time.monotonic() + TAKEOVER_SECONDS
        self._api.turn()
        if not self._api._follows or time.monotonic() >= self._until:
            raise error
        self._tried += 1
        if self._tried % servers == 0 or isinstance(error, PoolNotRunning):
            time.sleep(SEARCH_SECONDS)


def _leads(endpoint: Endpoint) -> bool:
    try:
        connection = _Connection(endpoint, QUICK_SECONDS)
    except GpupoolError:
        return False
    try:
        connection.settimeout(QUICK_SECONDS)
        connection.send(["GET", "/healthz"], b"")
        _, _, data = connection.answer("GET")
        return b'"leader"' in data and json.loads(data).get("role") == "leader"
    except (_BrokenError, OSError, ValueError):
        return False
    finally:
        connection.close()


class _Connection:
    """One socket, and a reader of HTTP/1.1 answers on it."""

    def __init__(self, endpoint: Endpoint, seconds: float = CONNECT_SECONDS) -> None:
        self.endpoint = endpoint
        self.quiet: Callable[[], None] | None = None
        """Called each few seconds while nothing comes."""
        self._seconds = ANSWER_SECONDS
        self._buffer = bytearray()
        self._socket = _open_unix(endpoint) if endpoint.path is not None else _open_tcp(endpoint, seconds)

    def settimeout(self, seconds: float) -> None:
        self._seconds = seconds
        self._socket.settimeout(seconds if self.quiet is None else min(seconds, LOOK_SECONDS))

    def send(self, lines: list[str], payload: bytes) -> None:
        host = self.endpoint.host or "gpupool"
        extra = [f"Host: {f'[{host}]' if ':' in host else host}"]
        if self.endpoint.token:
            extra.append(f"Authorization: Bearer {self.endpoint.token}")
        first = f"{lines[0]} {self.endpoint.base}{lines[1]} HTTP/1.1"
        head = "\r\n".join([first, *extra, *lines[2:], "", ""])
        try:
            self._socket.sendall(head.encode("ascii") + payload)
        except TimeoutError:
            raise
        except OSError as error:
            # A pool that refuses a large body answers and closes while we still write: read what it said.
            if not payload:
                raise _BrokenError(_text(error)) from None

    def answer(self, method: str) -> tuple[int, dict[str, str], bytes]:
        status, headers = self.head()
        return status, headers, self.body(method, status, headers)

    def head(self) -> tuple[int, dict[str, str]]:
        while True:
            words = self._line().split(" ", 2)
            if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
                raise _BrokenError("what answers there does not speak HTTP")
            headers: dict[str, str] = {}
            while line := self._line():
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if int(words[1]) >= 200:
                return int(words[1]), headers

    def body(self, method: str, status: int, headers: Mapping[str, str]) -> bytes:
        if method == "HEAD" or status in (204, 304):
            return b""
        return b"".join(self.pieces(headers))

    def pieces(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The body in the pieces it comes in, to its end."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "content-length" in headers:
            yield from self._exactly(int(headers["content-length"]))
        else:
            yield self._take(len(self._buffer))
            while piece := self._receive():
                yield piece

    def stale(self) -> bool:
        """Whether the pool has closed a connection that was kept (or said something unasked)."""
        import select

        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(self._buffer) or bool(poll.poll(0))

    def close(self) -> None:
        self._socket.close()

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._line().split(";")[0], 16):
            yield from self._exactly(size)
            self._line()
        while self._line():
            continue

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._buffer:
                self._fill()
            piece = self._take(min(size, len(self._buffer)))
            size -= len(piece)
            yield piece

    def _line(self) -> str:
        start = 0
        while (end := self._buffer.find(b"\r\n", start)) < 0:
            if len(self._buffer) > _MAX_LINE:
                raise _BrokenError("what answers there does not speak HTTP")
            start = max(0, len(self._buffer) - 1)
            self._fill()
        return self._take(end + 2)[:-2].decode("latin-1")

    def _take(self, size: int) -> bytes:
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece

    def _fill(self) -> None:
        data = self._receive()
        if not data:
            raise _BrokenError("it closed the connection")
        self._buffer += data

    def _receive(self) -> bytes:
        waited = 0.0
        while True:
            try:
                return self._socket.recv(1 << 16)
            except TimeoutError:
                waited += LOOK_SECONDS
                if self.quiet is None or waited >= self._seconds:
                    raise
                self.quiet()
            except OSError as error:
                raise _BrokenError(_text(error)) from None


def _open_unix(endpoint: Endpoint) -> Socket:
    """Connect to a Unix socket of any path length: sockaddr_un has 108 bytes, a directory's descriptor is short."""
    assert endpoint.path is not None
    directory, name = os.path.split(os.path.abspath(endpoint.path))
    made = Socket(AF_UNIX, SOCK_STREAM)
    try:
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            made.connect(f"/proc/self/fd/{folder}/{name}")
        finally:
            os.close(folder)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        made.close()
        raise _nobody(endpoint) from None
    except PermissionError:
        made.close()
        raise NotAllowed(
            f"the pool at {endpoint.path} belongs to another user", hint="start your own: gpupool up"
        ) from None
    except OSError as error:
        made.close()
        raise PoolNotRunning(
            f"cannot reach the pool at {endpoint.path}: {_text(error)}", hint="gpupool doctor"
        ) from None
    return made


def _nobody(endpoint: Endpoint) -> PoolNotRunning:
    assert endpoint.path is not None
    directory = os.path.dirname(endpoint.path)
    where = "" if endpoint.implied else f" --state-dir {_quoted(directory)}"
    return PoolNotRunning(f"no pool is running at {directory}", hint=f"start one: gpupool up{where}")


def _open_tcp(endpoint: Endpoint, seconds: float) -> Socket:
    import socket

    try:
        made = socket.create_connection((endpoint.host, endpoint.port), seconds)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise PoolNotRunning(
            f"no pool answers at {endpoint}: {_text(error)}", hint="check the address in GPUPOOL_URL or `gpupool login`"
        ) from None
    return _wrapped(made, endpoint) if endpoint.tls else made


def _wrapped(made: TcpSocket, endpoint: Endpoint) -> Socket:
    import ssl

    try:
        return ssl.create_default_context(cafile=endpoint.ca_file).wrap_socket(made, server_hostname=endpoint.host)
    except (ssl.SSLError, OSError) as error:
        made.close()
        raise PoolNotRunning(
            f"{endpoint}: {getattr(error, 'verify_message', '') or _text(error)}",
            hint="name the certificate it was signed with: GPUPOOL_CA_FILE=/path/ca.pem",
        ) from None


def _read_answer(status: int, headers: Mapping[str, str], data: bytes, endpoint: Endpoint) -> Any:
    is_json = "json" in headers.get("content-type", "")
    try:
        value = json.loads(data) if is_json and data else data.decode("utf-8", "replace") or None
    except ValueError:
        raise PoolLost(f"the pool at {endpoint} answered with broken JSON", hint="gpupool doctor") from None
    if status < 300:
        return value
    if isinstance(value, dict) and "code" in value:
        error = from_code(str(value["code"]), str(value.get("detail") or value.get("title")), value.get("hint") or "")
        error.details.update(value.get("numbers") or {})
        raise error
    raise PoolLost(f"{endpoint} answered {status} and not as a pool does", hint="check the address: gpupool doctor")


def _query(query: Mapping[str, Any] | None) -> str:
    pairs = [
        f"{_quote(name)}={_quote(one)}"
        for name, value in (query or {}).items()
        for one in (value if isinstance(value, (list, tuple)) else (value,))
        if one is not None
    ]
    return "?" + "&".join(pairs) if pairs else ""


def _quote(value: object) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


def path_segment(text: str) -> str:
    """A name or id as one segment of a path; what the user typed cannot change the route."""
    quoted = _quote(text)
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _text(error: OSError) -> str:
    return error.strerror or str(error)
