"""Codes of an authenticator: TOTP (RFC 6238) with SHA-1, six digits and 30 seconds. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from typing import Final
from urllib.parse import quote, urlencode

STEP_SECONDS: Final = 30
DIGITS: Final = 6
#: Steps that a clock may be off, to either side.
WINDOW: Final = 1
#: RFC 4226, 4 (R6) recommends 160 bits.
SECRET_BYTES: Final = 20


def write_secret(secret: bytes) -> str:
    """Return the secret as authenticators take it."""
    return base64.b32encode(secret).decode().rstrip("=")


def make_code(secret: str, step: int) -> str:
    """Return the code of a step (RFC 4226, 5.3)."""
    key = base64.b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.new(key, struct.pack(">Q", step), hashlib.sha1).digest()
    offset = digest[-1] & 0x0F
    (number,) = struct.unpack(">I", digest[offset : offset + 4])
    return f"{(number & 0x7FFFFFFF) % 10**DIGITS:0{DIGITS}d}"


def find_step(secret: str, code: str, now_ns: int, last_step: int) -> int | None:
    """Return the step of a code; None where it is wrong, too old, or used already.

    Args:
        secret: base32.
        code: six digits.
        now_ns: nanoseconds since 1970.
        last_step: of the last code that was taken: no code serves twice.
    """
    current = now_ns // (STEP_SECONDS * 10**9)
    for step in range(current - WINDOW, current + WINDOW + 1):
        if step > last_step and hmac.compare_digest(make_code(secret, step), code):
            return step
    return None


def make_uri(secret: str, user: str, pool: str) -> str:
    """Return the address that authenticators read from a QR code."""
    label = quote(f"gpupool:{user}@{pool}")
    fields = {
        "secret": secret,
        "issuer": "gpupool",
        "algorithm": "SHA1",
        "digits": DIGITS,
        "period": STEP_SECONDS,
    }
    return f"otpauth://totp/{label}?{urlencode(fields)}"
