"""Requests to an OpenID provider: bounded in time, size and number, over TLS, without redirects."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from threading import BoundedSemaphore
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from gpupool.base.errors import BadOption, ProviderUnreachable
from gpupool.signon.addresses import check_web_address

#: A provider that is slower than this is down for whoever waits at the login page.
SECONDS: Final = 10.0
#: Of an answer; a key set with 100 keys of 4096 bits has 100 KB.
LONGEST_BYTES: Final = 1 << 20
#: Requests at a time: a provider that hangs must not take all of the server's 40 threads.
_TURNS: Final = BoundedSemaphore(8)


def ask_provider(
    url: str,
    certificates: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Send a request and return the answer's status and JSON object. Blocks up to 20 s.

    Args:
        url: https, or http on this machine.
        certificates: PEM of authorities; empty: those of the system.
        form: the fields of a POST; None: a GET.
        headers: more headers.

    Raises:
        ProviderUnreachable: no answer, or one that is no JSON object.
    """
    check_provider_address(url)
    if not _TURNS.acquire(timeout=SECONDS):
        raise ProviderUnreachable(
            f"8 requests to identity providers wait for {SECONDS:g} s already",
            hint="the provider is slow or down; try again",
        )
    try:
        return _exchange(url, certificates, form, headers or {})
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ProviderUnreachable(
            f"no answer from {describe_host(url)}: {error}", hint="gpupool sso test NAME"
        ) from None
    finally:
        _TURNS.release()


def check_provider_address(url: str) -> None:
    """Refuse an address that the provider named and that would be asked without TLS."""
    address, _, _ = url.partition("?")
    try:
        check_web_address(address, "the provider's address")
    except BadOption as error:
        raise ProviderUnreachable(error.message, hint="gpupool sso test NAME") from None


def describe_host(url: str) -> str:
    """Return scheme and host: paths and queries of providers may hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def make_tls_context(certificates: str) -> ssl.SSLContext:
    """Make a context that trusts these authorities, or those of the system."""
    return ssl.create_default_context(cadata=certificates or None)


def _exchange(
    url: str, certificates: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
) -> tuple[int, dict[str, Any]]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = make_tls_context(certificates)
        connection = http.client.HTTPSConnection(host, parts.port, timeout=SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=SECONDS)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"Accept": "application/json", **headers}
    with closing(connection):
        if form is None:
            connection.request("GET", target, headers=sent)
        else:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
            connection.request("POST", target, urlencode(form), sent)
        answer = connection.getresponse()
        body = answer.read(LONGEST_BYTES + 1)
    if len(body) > LONGEST_BYTES:
        raise ValueError(f"the answer has more than {LONGEST_BYTES} bytes")
    parsed = json.loads(body)
    if not isinstance(parsed, dict):
        raise ValueError(f"status {answer.status} without a JSON object")
    return answer.status, parsed
