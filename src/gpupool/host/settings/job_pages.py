"""Reads from the environment where browsers find the pages of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import BadOption
from gpupool.server.http.listeners import TcpListener, parse_listen

LISTEN = "GPUPOOL_PAGES_LISTEN"
DOMAIN = "GPUPOOL_PAGES_DOMAIN"
#: Browsers resolve every name below `localhost` to the loopback address (RFC 6761, 6.3).
LOCAL_DOMAIN = "localhost"
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,190}[a-z0-9])?")


@dataclass(frozen=True)
class PageSettings:
    """Where the pages of jobs are.

    Attributes:
        listener: port 0 takes a free one, the same one after each start.
        domain: each job is a host below it.
    """

    listener: TcpListener
    domain: str


def read_page_settings(
    environ: Mapping[str, str], cert: Path | None = None, key: Path | None = None
) -> PageSettings:
    """Return where pages are: a free port of the loopback address, unless it is set otherwise.

    Args:
        cert: the pool's certificate chain, for pages beyond the loopback address.
        key: its key.

    Raises:
        BadOption: a value is wrong.
    """
    domain = environ.get(DOMAIN) or LOCAL_DOMAIN
    if not _DOMAIN.fullmatch(domain):
        raise BadOption(f"{DOMAIN}={domain[:80]!r} is no domain", hint="write it like jobs.bank.cn")
    text = environ.get(LISTEN) or "127.0.0.1:0"
    is_local = domain == LOCAL_DOMAIN
    listener = parse_listen(text, cert=None if is_local else cert, key=None if is_local else key)
    return PageSettings(listener, domain)
