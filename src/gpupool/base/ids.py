"""Names and identifiers: how they are made and which are refused."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from gpupool.base.errors import BadName

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32, lower case: no i l o u
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_ID = re.compile(r"[a-z]-[0-9a-hjkmnp-tv-z]{10}")


def new_id(prefix: str, randomness: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """`j-4k9x2m7q8w`: a one-letter kind and 50 random bits. Kinds: j job, c claim, a allocation, r request."""
    bits = int.from_bytes(randomness(7), "big") >> 6
    return f"{prefix}-" + "".join(_ALPHABET[bits >> shift & 31] for shift in range(45, -5, -5))


def is_id(text: str) -> bool:
    """Whether the text has the shape of an id (and so can be no name)."""
    return _ID.fullmatch(text) is not None


def check_name(text: str, what: str = "name") -> str:
    """The text, if it can name a job, tenant, project or user. Raises BadName.

    Letters, digits, `.`, `_`, `-`; 1 to 63 characters, the first and last a letter or digit.
    """
    if _NAME.fullmatch(text) and not is_id(text):
        return text
    shown = text if len(text) <= 80 else text[:77] + "..."
    raise BadName(
        f"{what} {shown!r} cannot be used",
        hint="use 1 to 63 letters, digits, '.', '_' or '-', beginning and ending with a letter or digit",
    )
