"""The origin on which browsers see the pages of jobs, and nothing else: `/jobs/{job}/{service}/…`.

Each job has a host name of its own, so pages of one job reach neither the pool's API nor another
job's pages. A one-time link sets a cookie for that host; the right to enter the job is checked for
each request and each handshake of a WebSocket. The caller's login never reaches the job: its
`Cookie` and `Authorization` end here, and the job's own token is added. Decision 0103.
"""

from __future__ import annotations

import html
import logging
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from gpupool.base.errors import GpupoolError, JobUnreachable, NoPermission, NotFound, NotLoggedIn
from gpupool.workspaces.exchange import ServiceExchange
from gpupool.workspaces.kernels import NOTEBOOK_SERVICE
from gpupool.workspaces.service import WorkspaceService
from gpupool.workspaces.upgrade import find_upgrade
from gpupool.workspaces.visits import COOKIE_NS, Visitor

logger = logging.getLogger(__name__)

#: The parameter of a one-time link.
VISIT_PARAMETER: Final = "gpupool-visit"
_COOKIE: Final = "gpupool-job"
_PATH: Final = re.compile(r"/jobs/([^/]{1,128})/([a-z0-9][a-z0-9-]{0,31})(?:/.*)?")
#: Methods that change nothing, which a page of another origin may navigate to.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: After which a browser asks again for a page whose service does not answer.
_LOOK_AGAIN_SECONDS: Final = 3
_STATUS: Final = {NotLoggedIn: 401, NoPermission: 403, NotFound: 404}


@dataclass(frozen=True)
class PageOrigin:
    """Where browsers find the pages of jobs.

    Attributes:
        scheme: http or https.
        domain: each job is a host below it.
        port: None: the scheme's usual one.
    """

    scheme: str
    domain: str
    port: int | None

    def name(self, job: str) -> str:
        """Return the origin of a job, as a browser writes it."""
        port = "" if self.port is None else f":{self.port}"
        # A wildcard certificate is good for one label.
        label = job.lower().replace(".", "--")
        return f"{self.scheme}://{label}.{self.domain}{port}"

    @property
    def cookie(self) -> str:
        # The prefix binds the cookie to its host; browsers take it over TLS alone.
        return f"__Host-{_COOKIE}" if self.scheme == "https" else _COOKIE


class PageProxy:
    """An ASGI application; `origin` is set once its listener is bound."""

    def __init__(self, service: WorkspaceService) -> None:
        self._service = service
        self.origin = PageOrigin("http", "localhost", None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"no connection of the kind {scope['type']!r} is served here")
        try:
            await self._answer(scope, receive, send)
        except GpupoolError as error:
            await _make_error_page(error)(scope, receive, send)
        except ConnectionResetError as error:
            # The answer has begun: that it is not complete is all that a browser can be told.
            logger.info("a page of a job broke off: %s", error)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _PATH.fullmatch(scope["path"])
        if found is None:
            raise NotFound("there is no such page", hint="gpupool notebook  prints links")
        job = found[1]
        headers = dict(scope["headers"])
        own = self.origin.name(job)
        if headers.get(b"host", b"").decode("latin-1").lower() != own.partition("://")[2]:
            raise NotFound(f"pages of this job are at {own}", hint="gpupool notebook  prints links")
        link = _find_link(scope)
        if link and scope["method"] == "GET":
            await self._take_link(job, link, scope)(scope, receive, send)
            return
        visitor = self._read_visitor(job, headers)
        entrance = await run_in_threadpool(self._service.admit_visitor, visitor)
        check_origin(scope, headers, own)
        upgrade = headers.get(b"upgrade", b"").lower()
        if upgrade not in (b"", b"websocket"):
            raise NotFound(f"no protocol {upgrade[:20].decode('latin-1')!r} is relayed")
        opened = await self._service.broker.open_stream(
            entrance.agent, entrance.job, {"kind": "service", "service": found[2]}
        )
        # A page that is left open asks again and again; its kernels say when it was used last.
        asks_itself = found[2] == NOTEBOOK_SERVICE and scope["method"] in _SAFE
        self._service.open_streams.add(opened.end, visitor, is_activity=not asks_itself)
        exchange = ServiceExchange(opened, scope, receive, send)
        if upgrade:
            await exchange.switch(find_upgrade(scope))
        else:
            await exchange.answer()

    def _take_link(self, job: str, link: str, scope: Scope) -> Response:
        """Trade a one-time link for a cookie, and go to the page without it."""
        visitor = self._service.visits.take_link(link)
        if visitor.job != job:
            raise NotLoggedIn("this link is of another job", hint="gpupool notebook --open JOB")
        answer = RedirectResponse(_make_clean_path(scope), status_code=303)
        answer.set_cookie(
            self.origin.cookie,
            self._service.visits.make_cookie(visitor),
            max_age=COOKIE_NS // 10**9,
            secure=self.origin.scheme == "https",
            httponly=True,
            samesite="lax",
        )
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    def _read_visitor(self, job: str, headers: dict[bytes, bytes]) -> Visitor:
        """Return the visitor of a cookie. Raises NotLoggedIn."""
        visitor = self._service.visits.read_cookie(read_cookie(headers, self.origin.cookie))
        if visitor.job != job:
            raise NotLoggedIn("this cookie is of another job", hint="gpupool notebook --open JOB")
        return visitor


def check_origin(scope: Scope, headers: dict[bytes, bytes], own: str) -> None:
    """Raise NoPermission for what a page of another origin has sent in the visitor's name."""
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    is_unsafe = scope["method"] not in _SAFE or b"upgrade" in headers
    site = headers.get(b"sec-fetch-site", b"none")
    is_foreign = site not in (b"same-origin", b"none")
    if (is_unsafe and origin != own) or (origin and origin != own):
        raise NoPermission(f"a page of {origin or 'no origin'} may not do this at {own}")
    if is_foreign and headers.get(b"sec-fetch-mode") != b"navigate":
        raise NoPermission(f"a page of another origin may not read {own}")


def read_cookie(headers: dict[bytes, bytes], name: str) -> str:
    """Return the value of a cookie; empty: it was not sent."""
    # Not by http.cookies: for one that it cannot parse, as pages of jobs set them, it drops all.
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return ""


def _find_link(scope: Scope) -> str:
    query = parse_qsl(scope["query_string"].decode("latin-1"))
    return str(dict(query).get(VISIT_PARAMETER, ""))


def _make_clean_path(scope: Scope) -> str:
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    rest = urlencode([(name, value) for name, value in query if name != VISIT_PARAMETER])
    return quote(scope["path"]) + (f"?{rest}" if rest else "")


def _make_error_page(error: GpupoolError) -> Response:
    status = next((one for kind, one in _STATUS.items() if isinstance(error, kind)), 502)
    text = f"<p>{html.escape(error.message)}</p><p><code>{html.escape(error.hint)}</code></p>"
    page = (
        '<!doctype html><meta charset="utf-8"><title>gpupool</title>'
        f"<h1>{html.escape(error.code)} {html.escape(error.title)}</h1>{text}"
    )
    headers = {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    if isinstance(error, JobUnreachable):
        # A service that is just starting: the browser looks again by itself.
        headers["Refresh"] = f"{_LOOK_AGAIN_SECONDS}"
    return HTMLResponse(page, status, headers)
