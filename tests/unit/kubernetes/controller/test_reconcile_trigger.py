"""A change is reconciled at once, or together with others a little later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpupool.kubernetes.controller.reconcile_trigger import SOON_SECONDS, ReconcileTrigger
from tests.support.virtual_time import loop_time, on_virtual_time

NEVER = 60.0


def wait_after(request: Callable[[ReconcileTrigger], None]) -> float:
    """Seconds from the request until the loop is woken; `NEVER` if it is not."""
    waited: list[float] = []

    async def run() -> None:
        trigger = ReconcileTrigger()
        request(trigger)
        try:
            async with asyncio.timeout(NEVER):
                await trigger.wait_for_request()
        except TimeoutError:
            pass
        waited.append(loop_time())

    on_virtual_time(run())
    return waited[0]


def test_request_now_wakes_the_loop_at_once() -> None:
    assert wait_after(ReconcileTrigger.request_now) == 0.0


def test_request_now_overtakes_one_for_soon() -> None:
    def request(trigger: ReconcileTrigger) -> None:
        trigger.request_soon()
        trigger.request_now()

    assert wait_after(request) == 0.0


def test_later_requests_for_soon_do_not_put_off_the_first() -> None:
    def request(trigger: ReconcileTrigger) -> None:
        trigger.request_soon()
        asyncio.get_running_loop().call_later(SOON_SECONDS / 2, trigger.request_soon)

    assert wait_after(request) == SOON_SECONDS


def test_cleared_requests_wake_nothing_and_new_ones_do() -> None:
    def clear(trigger: ReconcileTrigger) -> None:
        trigger.request_now()
        trigger.request_soon()
        trigger.clear_requests()

    def clear_and_request(trigger: ReconcileTrigger) -> None:
        clear(trigger)
        trigger.request_soon()

    assert wait_after(clear) == NEVER
    assert wait_after(clear_and_request) == SOON_SECONDS
