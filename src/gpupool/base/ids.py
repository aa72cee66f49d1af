"""Makes identifiers and checks names."""

from __future__ import annotations

import os

from gpupool.base.errors import BadName

TYPE_CHECKING = False  # the command line imports this module: no re, no typing
if TYPE_CHECKING:
    from collections.abc import Callable

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32, lower case: no i l o u
_ENDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_INSIDE = _ENDS | frozenset("._-")


def new_id(prefix: str, randomness: Callable[[int], bytes] = os.urandom) -> str:
    """Make an id like `j-4k9x2m7q8w`: a kind of one letter and 50 random bits.

    Args:
        prefix: The kind: j job, c claim, a allocation, r request.
        randomness: Returns so many random bytes.
    """
    # 56 random bits, of which ten letters of 5 bits take 50.
    bits = int.from_bytes(randomness(7), "big") >> 6
    return f"{prefix}-" + "".join(_ALPHABET[bits >> shift & 31] for shift in range(45, -5, -5))


def is_id(text: str) -> bool:
    """Whether the text has the shape of an id, and so cannot be a name."""
    kind = text[:1]
    dash = text[1:2]
    rest = text[2:]
    return (
        kind in set("abcdefghijklmnopqrstuvwxyz")
        and dash == "-"
        and len(rest) == 10
        and set(rest) <= set(_ALPHABET)
    )


def check_name(text: str, what: str = "name") -> str:
    """Check that a text can name a job, tenant, project or user, and return it.

    A name has 1 to 63 letters, digits, `.`, `_` or `-`; the first and last is a letter or digit.

    Args:
        text: The name.
        what: What is named, for the message.

    Raises:
        BadName: The text cannot be a name.
    """
    plain = (
        1 <= len(text) <= 63 and text[0] in _ENDS and text[-1] in _ENDS and _INSIDE.issuperset(text)
    )
    if plain and not is_id(text):
        return text
    shown = text if len(text) <= 80 else text[:77] + "..."
    raise BadName(
        f"{what} {shown!r} cannot be used",
        hint="use 1 to 63 letters, digits, '.', '_' or '-', beginning and ending with a letter or digit",
    )
