"""Requests as text and answers as values: targets, queries, JSON and problems (RFC 9457).

Pure; must not know connections or which pool is meant.
"""

from __future__ import annotations

import json

from gpupool import __version__
from gpupool.base.errors import PoolLost, from_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gpupool.client.endpoints import PoolEndpoint

PREFIX = "/api/v1/"
#: Methods without an effect (RFC 9110, 9.2.1): a repetition needs no key.
SAFE_METHODS = frozenset({"GET", "HEAD"})
#: Bytes that a query holds as they are (RFC 3986, 2.3), and two that need no quotes there.
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:,")


def request_message(
    method: str, path: str, body: Any, query: Mapping[str, Any] | None, key: str | None
) -> tuple[list[str], bytes]:
    """What `Connection.send` takes: method, target and headers, and the body as JSON.

    `path` is relative to /api/v1/ unless it starts with `/`; `key` is the idempotency key.
    """
    target = path if path.startswith("/") else PREFIX + path
    lines = [method, f"{target}{_query_text(query)}", f"User-Agent: gpupool/{__version__}"]
    payload = b""
    if body is not None:
        payload = json.dumps(body, separators=(",", ":")).encode()
        lines.append("Content-Type: application/json")
    if body is not None or method not in ("GET", "HEAD", "DELETE"):
        lines.append(f"Content-Length: {len(payload)}")
    if key is not None:
        lines.append(f"Idempotency-Key: {key}")
    return lines, payload


def read_answer(
    status: int, headers: Mapping[str, str], data: bytes, endpoint: PoolEndpoint
) -> Any:
    """The answer's JSON; the bytes of a file, the text of any other kind, None if it is empty.

    Raises:
        GpupoolError: the error that the pool answered.
        PoolLost: the answer is not one that a pool gives.
    """
    kind = headers.get("content-type", "")
    is_json = "json" in kind
    if status < 300 and kind.startswith("application/") and not is_json:
        return data  # a file
    try:
        value = json.loads(data) if is_json and data else data.decode("utf-8", "replace") or None
    except ValueError:
        raise PoolLost(
            f"the pool at {endpoint} answered with broken JSON", hint="gpupool doctor"
        ) from None
    if status < 300:
        return value
    if isinstance(value, dict) and "code" in value:
        error = from_code(
            str(value["code"]),
            str(value.get("detail") or value.get("title")),
            value.get("hint") or "",
        )
        error.details.update(value.get("numbers") or {})
        raise error
    raise PoolLost(
        f"{endpoint} answered {status} and not as a pool does",
        hint="check the address: gpupool doctor",
    )


def path_segment(text: str) -> str:
    """A name or id as one segment of a path; no text changes the route."""
    quoted = _quote_query(text)
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _query_text(query: Mapping[str, Any] | None) -> str:
    pairs: list[str] = []
    for name, value in (query or {}).items():
        values = value if isinstance(value, (list, tuple)) else (value,)
        pairs += [f"{_quote_query(name)}={_quote_query(one)}" for one in values if one is not None]
    return "?" + "&".join(pairs) if pairs else ""


def _quote_query(value: object) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return "".join(
        chr(byte) if byte in _SAFE else f"%{byte:02X}"
        for byte in text.encode("utf-8", "surrogateescape")
    )
