"""The layer that bounds how many requests of one user are under way at the same time.

Connections are bounded by where they come from (`connections`); a credential that is used from many addresses, or a
proxy through which many come, is bounded here, by user. The pool's owner and root over the Unix socket, and agents,
are not: they are what ends the others' excess.
"""

from __future__ import annotations

import os
from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.base.errors import TooManyRequests
from gpupool.model.tenant import Principal, Role
from gpupool.server.connections import PER_SOURCE, RETRY_SECONDS
from gpupool.tenancy.access import PRINCIPAL_KEY, scope_peer


class InFlight:
    """Lies inside the layer that finds out who is asking."""

    def __init__(self, app: ASGIApp, most: int = PER_SOURCE) -> None:
        self._app, self._most = app, most
        self._by_user: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope.get(PRINCIPAL_KEY)
        if not isinstance(principal, Principal) or _is_free(principal, scope):
            await self._app(scope, receive, send)
            return
        user = principal.user_id
        if self._by_user[user] >= self._most:
            raise self._refusal(principal)
        self._by_user[user] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]

    def _refusal(self, principal: Principal) -> TooManyRequests:
        count = self._by_user[principal.user_id]
        return TooManyRequests(
            f"{principal.user} has {count} requests under way, which is as many as one user may have",
            hint=f"let some end, and ask again in {RETRY_SECONDS} s; one `watch` can serve many readers",
            open=count,
            most=self._most,
            retry_after_seconds=RETRY_SECONDS,
        )


def _is_free(principal: Principal, scope: Scope) -> bool:
    peer = scope_peer(scope)
    return principal.role is Role.AGENT or (peer is not None and peer.uid in (0, os.getuid()))
