"""Several requests are sent at once, up to a limit, and none is left behind by an error."""

from __future__ import annotations

import asyncio

import pytest

from gpupool.kubernetes.client.concurrency import IN_FLIGHT, gather_limited


def test_gather_limited_keeps_to_its_limit_and_the_order_of_results() -> None:
    running = 0
    most = 0

    async def step(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        # Later steps end first.
        for _ in range(3 * IN_FLIGHT - number):
            await asyncio.sleep(0)
        running -= 1
        return number

    numbers = list(range(3 * IN_FLIGHT))
    assert asyncio.run(gather_limited(map(step, numbers))) == numbers
    assert most == IN_FLIGHT


def test_gather_limited_ends_every_step_before_it_raises_the_first_error() -> None:
    ended: list[str] = []

    async def fail(text: str) -> None:
        raise ValueError(text)

    async def end_late() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        ended.append("late")

    with pytest.raises(ValueError, match="first"):
        asyncio.run(gather_limited([fail("first"), end_late(), fail("second")]))
    assert ended == ["late"]
