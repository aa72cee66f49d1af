"""Requests of one user go one after the other, those of two users side by side."""

from __future__ import annotations

import asyncio

from gpupool.allocations.submission.user_queue import UserQueue


def test_requests_of_one_user_go_in_their_order_and_others_do_not_wait() -> None:
    async def ask() -> list[str]:
        turns, seen, go = UserQueue(), list[str](), asyncio.Event()

        async def one(user: int, name: str) -> None:
            async with turns.wait_turn(user):
                seen.append(name)
                await go.wait()

        tasks = [
            asyncio.create_task(one(user, name))
            for user, name in ((1, "a"), (1, "b"), (2, "c"), (1, "d"))
        ]
        await asyncio.sleep(0)
        assert seen == ["a", "c"]
        go.set()
        await asyncio.gather(*tasks)
        assert turns._turns == {}
        return seen

    assert asyncio.run(ask()) == ["a", "c", "b", "d"]


def test_a_request_that_fails_or_is_cancelled_gives_its_turn_on() -> None:
    async def ask() -> None:
        turns, go = UserQueue(), asyncio.Event()

        async def refused() -> None:
            async with turns.wait_turn(1):
                await go.wait()
                raise ValueError("refused")

        first = asyncio.create_task(refused())
        await asyncio.sleep(0)
        second = asyncio.create_task(turns.wait_turn(1).__aenter__())
        await asyncio.sleep(0)
        second.cancel()
        go.set()
        assert [
            type(one) for one in await asyncio.gather(first, second, return_exceptions=True)
        ] == [
            ValueError,
            asyncio.CancelledError,
        ]
        async with turns.wait_turn(1):
            assert list(turns._turns) == [1]
        assert turns._turns == {}

    asyncio.run(ask())
