"""Requests as a browser sends them to the app: with a cookie, an origin and the console's header.

browser = Browser(pool)                    # no session yet
browser.log_in(pool.token("alice"))
browser.get("whoami")
browser.post("jobs", {...}, origin="https://elsewhere.example")
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.api import Answer, Client, RunningApp

HOST = "127.0.0.1:8470"


@dataclass
class Browser:
    """One browser, and the cookies that it has been given."""

    pool: RunningApp
    host: str = HOST
    scheme: str = "http"
    cookies: dict[str, str] = field(default_factory=dict)
    #: What it talks to: the app, unless a test puts a layer before it.
    app: Any = None
    #: The attributes of the cookie that came last.
    attributes: str = ""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    def log_in(self, token: str, **options: Any) -> Answer:
        return self.request("POST", "/login", {"token": token}, **options)

    def get(self, path: str, **options: Any) -> Answer:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.request("POST", path, {} if body is None else body, **options)

    def client(self) -> Client:
        """A caller that only reads, for streams."""
        return Client(self.app or self.pool.app, self.pool.loop, None, headers=self.headers("GET"))

    def headers(
        self, method: str, origin: str | None = "", page: str | None = "1"
    ) -> dict[str, str]:
        """What a page of that origin sends; of the console's own unless another is named."""
        found = {"host": self.host}
        if self.cookies:
            found["cookie"] = "; ".join(f"{name}={text}" for name, text in self.cookies.items())
        if method not in ("GET", "HEAD"):
            sent = self.origin if origin == "" else origin
            found |= {} if sent is None else {"origin": sent}
            found |= {} if page is None else {"x-gpupool": page}
        return found

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        origin: str | None = "",
        page: str | None = "1",
        headers: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
    ) -> Answer:
        sent = self.headers(method, origin, page) | (headers or {})
        answer = Client(self.app or self.pool.app, self.pool.loop, None).request(
            method, path, json_body=body, headers=sent, params=params
        )
        self._store_cookie(answer.headers.get("set-cookie"))
        return answer

    def _store_cookie(self, header: str | None) -> None:
        if header is None:
            return
        pair, _, self.attributes = header.partition("; ")
        name, _, text = pair.partition("=")
        if "Max-Age=0" in self.attributes:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = text
