"""Reads from the environment how many connections one caller may have."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.base.errors import BadOption
from gpupool.server.http.connections import PER_SOURCE

NAME = "GPUPOOL_CONNECTIONS_PER_CALLER"


def read_caller_limit(environ: Mapping[str, str]) -> int:
    """Return the limit of one Unix account or network address.

    Raises:
        BadOption: the value is no number in range.
    """
    text = environ.get(NAME) or str(PER_SOURCE)
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) >= 16):
        raise BadOption(
            f"{NAME}={text!r} is no whole number from 16 to 99999", hint=f"write it like {NAME}=256"
        )
    return int(text)
