"""A way to PostgreSQL that breaks at a commit: before the server has it, or before its answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from sqlalchemy import make_url


class CutConnections:
    """Relays connections to a server's Unix socket until one is cut; tests arm it once at a time."""

    def __init__(self, directory: Path, server: str) -> None:
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / Path(server).name))
        self._listener.listen()
        self._cut: Literal["", "before", "after"] = ""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_commit(self, when: Literal["before", "after"]) -> None:
        """Break the connection of the next commit: before it arrives, or before its answer does."""
        self._cut = when

    def close(self) -> None:
        # A thread that waits in accept() is woken by this, not by close().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                threading.Thread(target=self._relay, args=(client, server), daemon=True).start()
                threading.Thread(target=_pass_on, args=(server, client), daemon=True).start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._cut and b"COMMIT" in data:
                    is_carried_out = self._cut == "after"
                    self._cut = ""
                    client.shutdown(socket.SHUT_RDWR)
                    if is_carried_out:
                        server.sendall(data)
                        continue
                    break
                server.sendall(data)
        with suppress(OSError):
            # PostgreSQL carries out what it was sent before it sees the end.
            server.shutdown(socket.SHUT_WR)


def _pass_on(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := server.recv(65536):
            with suppress(OSError):
                client.sendall(data)
    for one in (server, client):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def cut_connections(directory: Path, url: str) -> Iterator[tuple[CutConnections, str]]:
    """Give the relay, and the URL of the same database through it."""
    found = make_url(url)
    host = str(found.query["host"])
    port = found.query.get("port") or found.port or 5432
    relay = CutConnections(directory, f"{host}/.s.PGSQL.{port}")
    through = found.update_query_dict({"host": str(directory)})
    try:
        yield relay, through.render_as_string(hide_password=False)
    finally:
        relay.close()
