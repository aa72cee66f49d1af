"""Says when the controller reconciles next: at once, or a little later."""

from __future__ import annotations

import asyncio

#: Seconds for which changes are gathered that no plan waits for: pods bound, cards prepared.
SOON_SECONDS = 0.5


class ReconcileTrigger:
    """An event that wakes the reconcile loop. Used in the event loop alone."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def request_now(self) -> None:
        """Have the loop reconcile at once."""
        self._event.set()

    def request_soon(self) -> None:
        """Have the loop reconcile within `SOON_SECONDS`: the change affects no plan."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SOON_SECONDS, self._event.set)

    def clear_requests(self) -> None:
        """Forget all requests; called before the loop reconciles."""
        self._event.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def wait_for_request(self) -> None:
        """Return once a reconciliation is requested."""
        await self._event.wait()
