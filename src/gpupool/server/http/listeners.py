"""Where the server listens: checking what was asked for, and binding it.

Binding is apart from serving so that every refusal comes before the first answer. Unix
sockets are bound by descriptor of their directory, so their path may be of any length.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import ssl
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import BadOption, PoolAlreadyRunning, PortTaken, StateUnusable

logger = logging.getLogger(__name__)

#: Connections that wait in the kernel; listen(2) cuts it at net.core.somaxconn.
BACKLOG = 1024


@dataclass(frozen=True)
class UnixListener:
    """A socket file. 0600 for a user's own pool, 0666 for the system's."""

    path: Path
    mode: int = 0o600


@dataclass(frozen=True)
class TcpListener:
    """A host and port. Plain on loopback; elsewhere with a certificate, or `insecure_http` said
    aloud."""

    host: str
    port: int
    cert: Path | None = None
    key: Path | None = None
    insecure_http: bool = False


Listener = UnixListener | TcpListener


@dataclass(frozen=True)
class BoundSocket:
    """A listening socket. `address` is what a client is given: a path, or a URL."""

    socket: socket.socket
    address: str
    tls: ssl.SSLContext | None = None
    file: Path | None = None
    inode: int = 0

    def remove(self) -> None:
        """Close it, and remove its file if it is still the one we made. Idempotent."""
        self.socket.close()
        if self.file is not None and _read_inode(self.file) == self.inode:
            self.file.unlink(missing_ok=True)


def parse_listen(
    text: str, *, cert: Path | None = None, key: Path | None = None, insecure_http: bool = False
) -> TcpListener:
    """Parse `HOST:PORT`, `[::1]:8080` or `:8080` (every address). Raises BadOption."""
    host, colon, port = text.strip().rpartition(":")
    if (
        not colon
        or not (port.isascii() and port.isdigit())
        or int(port) > 65535
        or (":" in host and host[0] != "[")
    ):
        raise BadOption(
            f"--listen {text!r} is not HOST:PORT", hint="write it like 127.0.0.1:8470 or [::1]:8470"
        )
    return TcpListener(host.strip("[]"), int(port), cert, key, insecure_http)


def bind_listeners(listeners: Sequence[Listener]) -> list[BoundSocket]:
    """Listen on all of them or on none.

    Raises:
        PortTaken: The port has a listener.
        PoolAlreadyRunning: A pool answers on the socket.
        StateUnusable: The socket cannot be made.
        BadOption: The address or the certificate is wrong.
    """
    bound: list[BoundSocket] = []
    try:
        for one in listeners:
            bound += [_bind_unix(one)] if isinstance(one, UnixListener) else _bind_tcp(one)
    except BaseException:
        for done in bound:
            done.remove()
        raise
    return bound


def _bind_unix(listener: UnixListener) -> BoundSocket:
    """Bind beside the name, make it right, then move it there.

    There is no moment with wrong rights or without a listener.
    """
    with _open_directory(listener.path) as directory:
        here = f"/proc/self/fd/{directory}"
        _refuse_living(f"{here}/{listener.path.name}", listener.path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        beside = f"{here}/.{os.getpid()}.sock"  # host.state knows this name, for a purge
        try:
            _remove_file(beside)
            os.fchmod(sock.fileno(), 0o600)  # what bind gives the file, less the umask
            sock.bind(beside)
            os.chmod(beside, listener.mode)
            sock.listen(BACKLOG)
            os.rename(beside, f"{here}/{listener.path.name}")
        except OSError as error:
            sock.close()
            _remove_file(beside)
            raise StateUnusable(
                f"cannot listen on {listener.path}: {error.strerror}",
                hint="choose another --state-dir",
            ) from error
    # asyncio accepts from sockets that never wait.
    sock.setblocking(False)
    return BoundSocket(
        sock, str(listener.path), file=listener.path, inode=_read_inode(listener.path) or 0
    )


@contextmanager
def _open_directory(path: Path) -> Iterator[int]:
    try:
        fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StateUnusable(
            f"{path.parent}: {error.strerror}", hint="choose another --state-dir"
        ) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _refuse_living(name: str, path: Path) -> None:
    """Raise unless the name is free, or a socket without a listener."""
    try:
        found = os.lstat(name)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StateUnusable(
            f"{path} is in the way and is no socket", hint="move it, or choose another --state-dir"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full queue (EAGAIN) is an answer too
        outcome = probe.connect_ex(name)
    if outcome not in (errno.ECONNREFUSED, errno.ENOENT):
        raise PoolAlreadyRunning(
            f"a pool already answers on {path}", hint="gpupool doctor shows which one"
        )


def _remove_file(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        return


def _read_inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return None


def _bind_tcp(listener: TcpListener) -> list[BoundSocket]:
    addresses = _resolve_addresses(listener)
    tls = _load_tls(listener)
    if tls is None and not all(
        ipaddress.ip_address(str(one[1][0]).partition("%")[0]).is_loopback for one in addresses
    ):
        _allow_plain(listener)
    bound: list[BoundSocket] = []
    try:
        for family, address in addresses:
            bound.append(_bind_address(listener, family, address, tls))
    except BaseException:
        for done in bound:
            done.remove()
        raise
    return bound


def _resolve_addresses(
    listener: TcpListener,
) -> list[tuple[socket.AddressFamily, tuple[str | int | bytes, ...]]]:
    try:
        found = socket.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError) as error:
        raise BadOption(
            f"--listen: no address is known for {listener.host!r}: {error}", hint="give an address"
        ) from None
    return list(
        dict.fromkeys(
            (family, tuple(address)) for family, _type, _protocol, _name, address in found
        )
    )


def _load_tls(listener: TcpListener) -> ssl.SSLContext | None:
    if listener.cert is None and listener.key is None:
        return None
    if listener.cert is None or listener.key is None:
        raise BadOption("--tls-cert and --tls-key go together", hint="give both files")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(listener.cert, listener.key)
    except (OSError, ssl.SSLError) as error:
        raise BadOption(
            f"the certificate {listener.cert} with the key {listener.key} cannot be used: {error}",
            hint="both are PEM files, the key without a passphrase and fitting the certificate",
        ) from error
    return context


def _allow_plain(listener: TcpListener) -> None:
    where = f"{listener.host or 'every address'}:{listener.port}"
    if not listener.insecure_http:
        raise BadOption(
            f"--listen {where} is open to the network: it needs TLS",
            hint="give --tls-cert FILE and --tls-key FILE, or say --insecure-http",
        )
    logger.warning(
        "INSECURE: plain HTTP on %s; whoever sees the traffic sees every token in it", where
    )


def _bind_address(
    listener: TcpListener,
    family: socket.AddressFamily,
    address: tuple[str | int | bytes, ...],
    tls: ssl.SSLContext | None,
) -> BoundSocket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A restart must not wait for connections of the old server in TIME_WAIT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Else `::` takes the port of IPv4 too, and the second bind of `:8080` fails.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise _describe_bind_failure(listener, error) from error
    sock.setblocking(False)
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    return BoundSocket(sock, f"http{'s' if tls else ''}://{shown}:{port}", tls)


def _describe_bind_failure(listener: TcpListener, error: OSError) -> BadOption | PortTaken:
    where = f"{listener.host or '*'}:{listener.port}"
    if error.errno == errno.EADDRINUSE:
        return PortTaken(
            f"port {listener.port} on {listener.host or 'this machine'} is taken",
            hint=f"choose another port, or see who has it:  ss -ltnp sport = :{listener.port}",
            port=listener.port,
        )
    return BadOption(
        f"--listen {where}: {error.strerror}",
        hint="give an address of this machine and a free port",
    )
