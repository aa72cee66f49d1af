"""The streams that are open, and the end of those whose caller has lost the right.

A request is checked when it comes; a stream may last for days. Whenever people or their rights have
changed, each open stream is checked as its request was. On the event loop, but for `note_change`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from functools import partial

from starlette.concurrency import run_in_threadpool

from gpupool.base.errors import GpupoolError
from gpupool.tenancy.users import PEOPLE
from gpupool.workspaces.pipes import PipeEnd
from gpupool.workspaces.visits import Visitor

logger = logging.getLogger(__name__)


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

    def note_change(self, topics: frozenset[Hashable]) -> None:
        """Check what is open if people have changed. Thread-safe; never blocks."""
        if PEOPLE in topics and self._open and self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_check)

    def _begin_check(self) -> None:
        task = asyncio.ensure_future(self._check())
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check(self) -> None:
        for end, visitor in list(self._open.items()):
            try:
                await run_in_threadpool(self._admit, visitor)
            except GpupoolError as error:
                logger.info("a stream into job %s is closed: %s", visitor.job, error.message)
                end.close()

    def _remove(self, end: PipeEnd) -> None:
        self._open.pop(end, None)
