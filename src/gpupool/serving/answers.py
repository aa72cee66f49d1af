"""Requests to services that are under way, each cut off once its caller has lost the right.

An answer may be streamed for hours, so the right is checked again while it passes, at the same
looks as that of WebSockets. On the event loop. Decision 0119.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gpupool.base.errors import GpupoolError, NoPermission, NotFound, NotLoggedIn

logger = logging.getLogger(__name__)

#: What a check of a right raises once that right has ended; any other error says nothing of it.
RIGHT_ENDED: Final = (NotLoggedIn, NoPermission, NotFound)


class _OpenRequest:
    """One request under way.

    Attributes:
        limit: cuts the request off where it waits.
        error: why it was cut off; None: it was not.
    """

    def __init__(
        self, service: str, recheck: Callable[[], Awaitable[None]], limit: asyncio.Timeout
    ) -> None:
        self.service = service
        self.recheck = recheck
        self.limit = limit
        self.error: GpupoolError | None = None


class OpenAnswers:
    """The requests of all services but WebSockets."""

    def __init__(self) -> None:
        self._open = set[_OpenRequest]()

    def __len__(self) -> int:
        return len(self._open)

    async def run(
        self, service: str, recheck: Callable[[], Awaitable[None]], work: Awaitable[None]
    ) -> None:
        """Do the work of a request, and cut it off once the right of its caller has ended.

        Args:
            service: its name, for the log.
            recheck: raises one of `RIGHT_ENDED` once the right has ended.
            work: passes the request and its answer.

        Raises:
            GpupoolError: what `recheck` raised, or the work.
        """
        limit = asyncio.timeout(None)
        request = _OpenRequest(service, recheck, limit)
        try:
            async with limit:
                self._open.add(request)
                await work
        except TimeoutError:
            if request.error is None:
                raise
            raise request.error from None
        finally:
            self._open.discard(request)

    async def check_callers(self) -> None:
        """Cut off the requests whose caller has lost the right."""
        for request in list(self._open):
            try:
                await request.recheck()
            except RIGHT_ENDED as error:
                logger.info(
                    "a request to service %s is cut off: %s", request.service, error.message
                )
                if request in self._open and request.error is None:
                    request.error = error
                    request.limit.reschedule(asyncio.get_running_loop().time())
