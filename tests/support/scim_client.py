"""The client library of SCIM against the whole API in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from scim2_client.engines.wsgi import WSGISCIMClient

from tests.support.api import Client


def make_scim_client(caller: Client) -> WSGISCIMClient:
    """A client of the library that asks as a caller does, with its token."""

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        path = environ["PATH_INFO"] + (f"?{query}" if query else "")
        headers = {"content-type": environ.get("CONTENT_TYPE") or "application/scim+json"}
        content = environ["wsgi.input"].read()
        answer = caller.request(
            environ["REQUEST_METHOD"], path, content=content or None, headers=headers
        )
        phrase = HTTPStatus(answer.status).phrase
        start_response(f"{answer.status} {phrase}", list(answer.headers.items()))
        return [answer.body]

    return WSGISCIMClient(app, base_url="http://pool/scim/v2")
