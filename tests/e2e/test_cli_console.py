"""`gpupool console` on a real pool: a port for browsers when it is asked for, sessions that outlast
a killed server, and WebSocket handshakes of strangers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claim_port

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Page:
    """A page of the console in a browser, over a real connection."""

    def __init__(self, address: str) -> None:
        self.host = urlsplit(address).netloc
        self.cookie = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        sent = {"Cookie": self.cookie} if self.cookie else {}
        if method != "GET":
            sent |= {"Origin": f"http://{self.host}", "X-Gpupool": "1"}
        if body is not None:
            sent |= {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, sent | headers)
            answer = connection.getresponse()
            found = answer.read()
            self.cookie = (answer.getheader("Set-Cookie") or self.cookie).partition(";")[0]
            return answer.status, found
        finally:
            connection.close()

    def log_in(self, url: str) -> int:
        token = url.strip().partition("#token=")[2]
        return self.ask("POST", "/login", {"token": token})[0]

    def user(self) -> str | None:
        status, body = self.ask("GET", "/api/v1/whoami")
        return str(json.loads(body)["user"]) if status == 200 else None


def read_pid(pool: RealPool) -> int:
    return int(json.loads(pool.do("doctor", "-o", "json"))["server"]["pid"])


def kill_server(pool: RealPool) -> None:
    pid = read_pid(pool)
    os.kill(pid, signal.SIGKILL)
    pool.until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the server")


def list_ports(pool: RealPool) -> set[str]:
    """TCP ports on which the pool's server listens."""
    pid = read_pid(pool)
    inodes = {
        os.readlink(f"/proc/{pid}/fd/{fd}").removeprefix("socket:[").rstrip("]")
        for fd in os.listdir(f"/proc/{pid}/fd")
        if os.path.lexists(f"/proc/{pid}/fd/{fd}")
    }
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A" and row[9] in inodes}


def test_the_console_of_a_pool_and_its_sessions(tmp_path: Path) -> None:
    pool = RealPool(tmp_path / "pool", sim="1xT4")
    with pool:
        assert list_ports(pool) == set(), "no port is open that nobody asked for"
        link = json.loads(pool.do("console", "-o", "json"))
        assert len(list_ports(pool)) == 1
        again = pool.do("console", "--print-url")
        assert len(list_ports(pool)) == 1
        assert again.startswith(f"{link['address']}/login#token=gpp_t-")
        page = Page(link["address"])
        assert page.log_in(link["url"]) == 204
        assert page.log_in(link["url"]) == 401
        assert page.log_in(again) == 204
        assert page.user() == link["user"]
        _refuse_programs(pool, page)
        assert link["user"] in pool.do("session", "list")

        kill_server(pool)
        address = f"http://127.0.0.1:{claim_port()}"
        pool.up("--listen", address.removeprefix("http://"))
        # Another process may have had the port of the console meanwhile, and its cookies.
        assert "no sessions" in pool.do("session", "list")

        page = Page(address)
        url = pool.do("console", "--print-url")
        assert url.startswith(f"{address}/login#token=")
        assert page.log_in(url) == 204
        _refuse_websockets(page)
        kill_server(pool)
        pool.up()
        assert page.user() == link["user"]
        session = json.loads(pool.do("session", "list", "-o", "json"))[0]["id"]
        assert pool.do("session", "end", session) == f"{session} ended\n"
        assert page.user() is None


def _refuse_programs(pool: RealPool, page: Page) -> None:
    token = pool.do("token", "create").strip()
    program = Page(f"http://{page.host}")
    status, body = program.ask("GET", "/api/v1/whoami", Authorization=f"Bearer {token}")
    assert (status, json.loads(body)["code"]) == (403, "GP-3002")
    status, body = program.ask("GET", "/api/v1/whoami", Host="rebound.example.org")
    assert (status, json.loads(body)["code"]) == (403, "GP-3002")
    assert program.user() is None
    status, body = program.ask("GET", "/", Accept="text/html")
    assert status == 200
    assert b"<html" in body


def _refuse_websockets(page: Page) -> None:
    """A handshake on the wire opens nothing without a login, nor from a page of another origin."""
    host, _, port = page.host.partition(":")
    for cookie, origin, status in (
        ("", f"http://{page.host}", b"401"),
        ("gpupool=x", f"http://{page.host}", b"401"),
    ):
        head = {"Host": page.host, "Origin": origin, **HANDSHAKE}
        head |= {"Cookie": cookie} if cookie else {}
        lines = "".join(f"{name}: {text}\r\n" for name, text in head.items())
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(f"GET /api/v1/watch HTTP/1.1\r\n{lines}\r\n".encode())
            answer = connection.recv(4096)
        assert answer.split(b" ")[1] == status, answer
        assert b"101" not in answer.split(b"\r\n")[0]
