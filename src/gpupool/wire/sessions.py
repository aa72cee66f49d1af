"""Shapes of logins and sessions of browsers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel
from gpupool.wire.people import RoleName


class CsrfFacts(WireModel):
    """The header that a page of the console sends with every request that is not GET or HEAD."""

    header: str = "X-Gpupool"
    value: str = "1"


class SessionOut(WireModel):
    """The caller as the console shows it."""

    user: str
    tenant: str
    role: RoleName
    permissions: list[str]
    language: Literal["en", "zh"] = Field(description="the first of them that the browser prefers")
    credential: Literal["cookie", "token", "socket"]
    session: str | None = Field(description="id of the session; null without a cookie")
    created_ns: int | None
    idle_ends_ns: int | None = Field(
        description="when it ends unless it is used, exact to a minute"
    )
    expires_ns: int | None
    csrf: CsrfFacts


class SessionRowOut(WireModel):
    """One session in a list of them."""

    id: str
    user: str
    tenant: str
    address: str = Field(description="where its login came from")
    browser: str = Field(description="User-Agent of its login: the browser's own text")
    created_ns: int
    used_ns: int
    idle_ends_ns: int
    expires_ns: int
    current: bool = Field(description="whether the caller's own request came with it")


class ConsoleLinkOut(WireModel):
    """A link that logs one browser in, once."""

    url: str = Field(description="with the one-time token behind the #, which no server logs")
    address: str = Field(description="where the console is served")
    user: str
    expires_ns: int
