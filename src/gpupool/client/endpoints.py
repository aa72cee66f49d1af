"""Where a pool may listen: the settings and the saved login as a list of addresses.

Opens no connection. Part of every command's start: imports the standard library's cheap modules
alone (docs/decisions/0002).
"""

from __future__ import annotations

import json
import os

from gpupool.base.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpupool.base.client_settings import ClientSettings


class PoolEndpoint:
    """One place where a pool may listen: a Unix socket's path, or scheme, host and port.

    An `implied` place was not configured: it is skipped if no pool listens there.
    """

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
        self.path = path
        self.token = token
        self.ca_file = ca_file
        self.implied = implied
        self.tls = False
        self.host = ""
        self.port = 0
        self.base = ""
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
            host = authority
            port = "443" if scheme == "https" else "80"
        if scheme not in ("http", "https") or not host or not port.isdigit():
            raise BadInput(
                f"{url!r} is not the address of a pool", hint="write it like https://host:8443"
            )
        self.tls = scheme == "https"
        self.host = host.strip("[]")
        self.port = int(port)
        self.base = "/" + base.strip("/") if base.strip("/") else ""

    def __str__(self) -> str:
        return (
            self.path or f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.base}"
        )


def list_endpoints(settings: ClientSettings) -> list[PoolEndpoint]:
    """Where to look for the pool, first match first.

    Raises:
        BadInput: an address or the saved login cannot be read.
    """
    if settings.state_dir is not None:
        return [PoolEndpoint(path=os.path.join(settings.state_dir, "gpupool.sock"))]
    if settings.url:
        return _list_servers(settings.url, settings.token, settings.ca_file)
    saved = read_saved_login(settings)
    if saved:
        return _list_servers(
            saved["url"], settings.token or saved["token"], settings.ca_file or saved.get("ca_file")
        )
    from gpupool.base.client_settings import SYSTEM_SOCKET_TEXT

    own = os.path.join(settings.own_state_dir, "gpupool.sock")
    return [
        PoolEndpoint(path=own, implied=True),
        PoolEndpoint(path=SYSTEM_SOCKET_TEXT, implied=True),
    ]


def _list_servers(urls: str, token: str | None, ca_file: str | None) -> list[PoolEndpoint]:
    """The servers of one pool, by one address or several with commas between them."""
    return [PoolEndpoint(url=url.strip(), token=token, ca_file=ca_file) for url in urls.split(",")]


def read_saved_login(settings: ClientSettings) -> dict[str, Any] | None:
    """What `gpupool login` wrote, or None.

    Raises:
        BadInput: the file was not written by `gpupool login`.
    """
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
            f"the saved login {settings.login_file} cannot be read: {error}",
            hint="gpupool login --forget",
        ) from None
