"""The page that a browser sees where a login at an identity provider ends in a refusal.

The problem's text, escaped: names of groups are texts of strangers.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from gpupool.base.errors import GpupoolError
from gpupool.server.console.headers import make_page_headers, new_nonce
from gpupool.server.console.languages import choose_language
from gpupool.server.http.problems import status_of

_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "en": ("You are not logged in", "Back to the login"),
    "zh": ("登录失败", "返回登录页"),
}


def make_problem_page(scope: Mapping[str, Any], error: GpupoolError) -> Response:
    """Make the page of a refused login, in the browser's language."""
    language = choose_language(scope)
    title, back = _TEXTS.get(language, _TEXTS["en"])
    parts = [html.escape(text) for text in (error.code, error.message, error.hint)]
    body = (
        f'<!doctype html><html lang="{language}"><meta charset="utf-8">'
        f"<title>gpupool: {title}</title><h1>{title}</h1>"
        f'<p>{parts[0]}: {parts[1]}</p><p>{parts[2]}</p><p><a href="/">{back}</a></p></html>'
    )
    headers = make_page_headers(new_nonce(), secure=scope.get("scheme") == "https")
    headers["Vary"] = "Accept-Language"
    return Response(body, status_of(type(error)), headers, "text/html; charset=utf-8")
