"""A connected socket to an endpoint: Unix, TCP or TLS, and what to type next if there is none.

`socket`, `ssl` and `shlex` are imported where they are needed: a command on the pool's machine
needs none of them (docs/decisions/0002).
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812  # the class below socket.socket; `socket` imports enum

from gpupool.base.errors import NoPermission, PoolNotRunning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket as TcpSocket  # noqa: N812

    from gpupool.client.endpoints import PoolEndpoint


def connected_socket(endpoint: PoolEndpoint, seconds: float) -> Socket:
    """Connect to `endpoint`. Blocks for at most `seconds` over TCP.

    Raises:
        PoolNotRunning: no pool can be reached there.
        NoPermission: the Unix socket belongs to another user.
    """
    if endpoint.path is not None:
        return _unix_socket(endpoint, endpoint.path)
    return _tcp_socket(endpoint, seconds)


def error_text(error: OSError) -> str:
    """The system's text of an error, without its number."""
    return error.strerror or str(error)


def _unix_socket(endpoint: PoolEndpoint, path: str) -> Socket:
    """Connect to a path of any length: sockaddr_un has 108 bytes, the path of a directory's
    descriptor is short."""
    directory, name = os.path.split(os.path.abspath(path))
    made = Socket(AF_UNIX, SOCK_STREAM)
    try:
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            made.connect(f"/proc/self/fd/{folder}/{name}")
        finally:
            os.close(folder)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        made.close()
        raise _not_running(endpoint, path) from None
    except PermissionError:
        made.close()
        raise NoPermission(
            f"the pool at {path} belongs to another user", hint="start your own: gpupool up"
        ) from None
    except OSError as error:
        made.close()
        raise PoolNotRunning(
            f"cannot reach the pool at {path}: {error_text(error)}", hint="gpupool doctor"
        ) from None
    return made


def _not_running(endpoint: PoolEndpoint, path: str) -> PoolNotRunning:
    directory = os.path.dirname(path)
    where = "" if endpoint.implied else f" --state-dir {_quote_path(directory)}"
    return PoolNotRunning(
        f"no pool is running at {directory}", hint=f"start one: gpupool up{where}"
    )


def _tcp_socket(endpoint: PoolEndpoint, seconds: float) -> Socket:
    import socket

    try:
        made = socket.create_connection((endpoint.host, endpoint.port), seconds)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise PoolNotRunning(
            f"no pool answers at {endpoint}: {error_text(error)}",
            hint="check the address in GPUPOOL_URL or `gpupool login`",
        ) from None
    return _tls_socket(made, endpoint) if endpoint.tls else made


def _tls_socket(made: TcpSocket, endpoint: PoolEndpoint) -> Socket:
    import ssl

    try:
        return ssl.create_default_context(cafile=endpoint.ca_file).wrap_socket(
            made, server_hostname=endpoint.host
        )
    except (ssl.SSLError, OSError) as error:
        made.close()
        raise PoolNotRunning(
            f"{endpoint}: {getattr(error, 'verify_message', '') or error_text(error)}",
            hint="name the certificate it was signed with: GPUPOOL_CA_FILE=/path/ca.pem",
        ) from None


def _quote_path(text: str) -> str:
    import shlex

    return shlex.quote(text)
