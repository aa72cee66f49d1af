"""Headers that every page of the console has, and the nonce of its styles."""

from __future__ import annotations

import secrets
from typing import Final

#: What a page may load. A component library adds `<style>` elements, which the nonce allows; it
#: sets `style` attributes too, which no nonce can.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'"
)
_YEAR_SECONDS: Final = 365 * 24 * 3600
NONCE_BYTES: Final = 16


def new_nonce() -> str:
    """Make the nonce of one page: 128 random bits."""
    return secrets.token_urlsafe(NONCE_BYTES)


def make_page_headers(nonce: str, *, secure: bool) -> dict[str, str]:
    """Make the headers of a page; `secure` where it was asked for over TLS."""
    headers = make_file_headers()
    headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cache-Control"] = "no-store"
    if secure:
        headers["Strict-Transport-Security"] = f"max-age={_YEAR_SECONDS}"
    return headers


def make_file_headers() -> dict[str, str]:
    """Make the headers of any file of the console."""
    return {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
