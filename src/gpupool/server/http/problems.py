"""Errors over HTTP (RFC 9457), and the outermost layer that lets none escape.

The only place that knows which error is which status. A defect of ours becomes GP-5900 with
a number that the log knows too; nothing of it is told to the caller.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool import __version__
from gpupool.base import errors
from gpupool.base.errors import GpupoolError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
#: Wrong fields that an answer names; a body may have thousands.
FIELDS_SHOWN = 20
#: nginx's status for a request whose client closed the connection first; RFC 9110 has none.
CLIENT_GONE = 499
# A class's status is its own or its nearest ancestor's.
STATUS: Mapping[type[GpupoolError], int] = {
    GpupoolError: 500,
    errors.BadInput: 400,
    errors.InvalidBody: 422,
    errors.BodyTooLarge: 413,
    errors.UnsupportedMethod: 405,
    errors.RequestRejection: 409,
    errors.NotLoggedIn: 401,
    errors.NoPermission: 403,
    errors.NotFound: 404,
    errors.WriteConflict: 409,
    errors.StaleGeneration: 412,
    errors.ServiceUnavailable: 503,
    errors.DiskFull: 507,
    errors.TooManyConnections: 429,
    errors.TooManyRequests: 429,
    errors.TooManyLogins: 429,
}
_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    503: {"Retry-After": "1"},
}


def status_of(kind: type[GpupoolError]) -> int:
    return next(STATUS[cls] for cls in kind.__mro__ if cls in STATUS)


def problem_response(error: GpupoolError, headers: Mapping[str, str] | None = None) -> Response:
    """Make the answer for an error: `application/problem+json` with its code, hint and numbers."""
    status = status_of(type(error))
    problem = {
        "type": f"urn:gpupool:problem:{error.code}",
        "title": error.title,
        "status": status,
        "detail": error.message,
        "code": error.code,
        "hint": error.hint,
        "numbers": error.details,
    }
    body = json.dumps(problem, ensure_ascii=True, default=str).encode()
    waits = error.details.get("retry_after_seconds")
    retry = {} if waits is None else {"Retry-After": str(waits)}
    return Response(
        body, status, {**_HEADERS.get(status, {}), **retry, **(headers or {})}, MEDIA_TYPE
    )


def install_handlers(app: FastAPI) -> None:
    """Give the app our answers in place of its own."""
    app.add_exception_handler(GpupoolError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)


async def _on_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, GpupoolError)
    return problem_response(error)


async def _on_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(describe_invalid(error.errors()))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    where = f"{request.method} {shorten_text(request.url.path)}"
    if error.status_code == 404:
        return problem_response(
            errors.RouteNotFound(f"there is no {where}", hint="GET /openapi.json lists the routes")
        )
    if error.status_code == 405:
        hint = "GET /openapi.json lists the methods"
        return problem_response(
            errors.UnsupportedMethod(f"{where} is not offered", hint=hint), error.headers
        )
    # FastAPI says 400 of whatever happens while it reads a body. An agent drops a report that is
    # refused, and its job would never end.
    is_ours = isinstance(error.__cause__, (MemoryError, OSError))
    if error.status_code < 500 and not is_ours:
        return problem_response(
            errors.InvalidBody(
                shorten_text(str(error.detail)), hint="GET /openapi.json has the shapes"
            )
        )
    return answer_defect(error)


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    """For the log of requests alone: no client is there to read it."""
    return Response(status_code=CLIENT_GONE)


def describe_invalid(found: Sequence[Mapping[str, Any]]) -> errors.InvalidBody:
    """Name the fields that are wrong and how.

    What was sent is not repeated, however large or odd it is.
    """
    fields = []
    for one in found[:FIELDS_SHOWN]:
        # `loc` begins with the part of the request: body, query or path.
        name = ".".join(map(str, one["loc"][1:])) or str(one["loc"][0])
        fields.append({"field": shorten_text(name), "problem": shorten_text(one["msg"])})
    first = (
        f"{fields[0]['field']}: {fields[0]['problem']}" if fields else "the request does not fit"
    )
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return errors.InvalidBody(
        first + more, hint="GET /openapi.json has the shapes", fields=fields, count=len(found)
    )


def answer_defect(error: BaseException) -> Response:
    """Log a defect whole, answer with its number only."""
    number = secrets.token_hex(4)
    logger.error("defect %s", number, exc_info=error)
    return problem_response(
        errors.InternalError(
            f"the server failed on this request (defect {number})",
            hint="the log of the server has it: server.log in its state directory",
        )
    )


def shorten_text(text: str, size: int = 200) -> str:
    """Make a piece of what a caller sent printable and short, to repeat it."""
    safe = text.encode("utf-8", "replace").decode()
    safe = "".join(char if char.isprintable() else "�" for char in safe[: size + 1])
    return safe if len(safe) <= size else safe[: size - 1] + "…"


class ProblemMiddleware:
    """Outermost layer: names the version in every answer and turns what escapes into a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["Gpupool-Version"] = __version__
            await send(message)

        try:
            await self._app(scope, receive, send_answer)
        except Exception as error:
            if started:
                raise  # the answer is half out: the connection must break, or it would look complete
            response = (
                problem_response(error) if isinstance(error, GpupoolError) else answer_defect(error)
            )
            await response(scope, receive, send_answer)
