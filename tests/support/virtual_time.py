"""An event loop whose clock only its timers move: what would wait is over at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class SkippingSelector(selectors.DefaultSelector):
    """Never blocks: the time that somebody would wait is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.skipping = SkippingSelector()
        super().__init__(self.skipping)

    def time(self) -> float:
        return self.skipping.now


def on_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    """Run to its end; timers fire in their order, without waiting."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work)


def loop_time() -> float:
    """Seconds of the running loop."""
    return asyncio.get_running_loop().time()


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel the task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
