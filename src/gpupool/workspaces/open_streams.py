"""The streams that are open, and the end of those whose caller has lost the right.

A request is checked when it comes; a stream may last for days. Each open stream is checked again as
its request was: at once when people or their rights have changed, and every few seconds, because a
token expires without a change, and a right may end between a check and the opening. On the event
loop, but for `note_change`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from starlette.concurrency import run_in_threadpool

from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.tenancy.users import PEOPLE
from gpupool.workspaces.pipes import PipeEnd
from gpupool.workspaces.visits import Visitor

logger = logging.getLogger(__name__)

#: Seconds between two checks of all streams.
CHECK_SECONDS: Final = 2.0
#: Seconds in which a side takes what was sent before the end; then the connection is cut.
CLOSE_SECONDS: Final = 2.0


class OpenStreams:
    """The ends of streams, each with the person and the job that it is for."""

    def __init__(
        self, admit: Callable[[Visitor], object], note_activity: Callable[[str], None]
    ) -> None:
        """Make the record.

        Args:
            admit: raises GpupoolError where the person may not enter the job now; blocks.
            note_activity: told of a job into or out of which bytes went.
        """
        self._note_activity = note_activity
        self._admit = admit
        self._open: dict[PipeEnd, Visitor] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._checks = set[asyncio.Task[None]]()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, end: PipeEnd, visitor: Visitor, *, is_activity: bool = True) -> None:
        """Keep a stream in view until it has closed.

        Args:
            end: the job's.
            visitor: the person, and the job.
            is_activity: its bytes are the person's, and no program's that asks by itself.
        """
        if is_activity:
            # To open it is activity, too.
            self._note_activity(visitor.job)
            end.note_bytes = partial(self._note_activity, visitor.job)
        self._loop = asyncio.get_running_loop()
        self._open[end] = visitor
        end.add_listener(partial(self._remove, end))
        if self._timer is None:
            self._set_timer()

    def note_change(self, topics: frozenset[Hashable]) -> None:
        """Check what is open if people have changed. Thread-safe; never blocks."""
        if PEOPLE in topics and self._open and self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_check)

    def _begin_check(self) -> None:
        """Check now. What a check that is under way has seen may be older than this change."""
        task = asyncio.ensure_future(self._check())
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    def _set_timer(self) -> None:
        if self._open and self._loop is not None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._look)

    def _look(self) -> None:
        """Check, unless a check is under way still, and look again later."""
        self._timer = None
        if not self._checks:
            self._begin_check()
        self._set_timer()

    async def _check(self) -> None:
        # A browser has many streams of one page: their right is one.
        for visitor in dict.fromkeys(self._open.values()):
            try:
                await run_in_threadpool(self._admit, visitor)
            except ServiceUnavailable as error:
                # The database does not answer, which ends no right.
                logger.warning(
                    "streams into job %s are not checked: %s", visitor.job, error.message
                )
            except GpupoolError as error:
                self._end(visitor, error)

    def _end(self, visitor: Visitor, error: GpupoolError) -> None:
        for end, other in list(self._open.items()):
            if other == visitor:
                logger.info("a stream into job %s is closed: %s", visitor.job, error.message)
                end.close_within(CLOSE_SECONDS)

    def _remove(self, end: PipeEnd) -> None:
        self._open.pop(end, None)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None
