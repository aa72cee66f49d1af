"""The layer that bounds how many requests of one user are under way, and worked on, at a time.

Connections are bounded by where they come from (`connections`); a credential that is used from many
addresses, or a proxy through which many come, is bounded here, by user. The pool's owner and root
over the Unix socket, and agents, are not: they are what ends the others' excess.

Plain routes run in threads that all users share. A user's requests beyond `AT_ONCE` wait in the
event loop, in the order of asking, until the answer to an earlier one begins.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.base.errors import TooManyRequests
from gpupool.model.tenant import Principal, UserRole
from gpupool.server.http.connections import PER_SOURCE, RETRY_SECONDS
from gpupool.tenancy.access import PRINCIPAL_KEY, scope_peer
from gpupool.tenancy.turns import TURN_KEY, RequestTurn

#: Of one user, of the 40 threads. 240 requests at once for long lists made another user's wait for
#: 60 s and more.
AT_ONCE: Final = 4


class InFlightMiddleware:
    """Lies inside the authentication layer: it counts by user."""

    def __init__(self, app: ASGIApp, most: int = PER_SOURCE) -> None:
        self._app = app
        self._most = most
        self._by_user: Counter[int] = Counter()
        self._turns: dict[int, asyncio.Semaphore] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope.get(PRINCIPAL_KEY)
        if not isinstance(principal, Principal) or _is_free(principal, scope):
            await self._app(scope, receive, send)
            return
        user = principal.user_id
        if self._by_user[user] >= self._most:
            raise self._describe_refusal(principal)
        self._by_user[user] += 1
        turn = RequestTurn(self._turns.setdefault(user, asyncio.Semaphore(AT_ONCE)))
        scope[TURN_KEY] = turn
        try:
            await turn.take()
            await self._app(scope, receive, _give_back_on_answer(turn, send))
        finally:
            turn.give_back()
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user], self._turns[user]

    def _describe_refusal(self, principal: Principal) -> TooManyRequests:
        count = self._by_user[principal.user_id]
        return TooManyRequests(
            f"{principal.user} has {count} requests under way, which is as many as one user may "
            "have",
            hint=f"let some end, and ask again in {RETRY_SECONDS} s; one `watch` can serve many "
            "readers",
            open=count,
            most=self._most,
            retry_after_seconds=RETRY_SECONDS,
        )


def _give_back_on_answer(turn: RequestTurn, send: Send) -> Send:
    """End the turn with the first message of the answer: what follows is a client's reading."""

    async def send_answer(message: Message) -> None:
        turn.give_back()
        await send(message)

    return send_answer


def _is_free(principal: Principal, scope: Scope) -> bool:
    peer = scope_peer(scope)
    return principal.role is UserRole.AGENT or (peer is not None and peer.uid in (0, os.getuid()))
