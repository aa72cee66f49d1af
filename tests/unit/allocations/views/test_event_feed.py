"""One reader of the event log for every watcher: who sees what, and at the cost of how many
queries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.views.event_feed import EVENTS_AT_ONCE, EventFeed
from gpupool.model.tenant import Principal
from tests.support.house import House

WATCHERS = 200
SECONDS = 30.0


@contextmanager
def queries_of_the_log(house: House) -> Iterator[list[str]]:
    """SELECTs that read rows of the event log, as the database driver gets them."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT events."):
            seen.append(statement)

    sa.event.listen(house.store.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(house.store.engine, "before_cursor_execute", note)


def happen(house: House, *subjects: str, tenant_id: int | None = None) -> None:
    """One commit with these events."""
    with house.store.write() as write:
        for subject in subjects:
            write.event("test.happened", subject, tenant_id=tenant_id)


def subjects(lines: list[str]) -> list[str]:
    told = [json.loads(line) for line in lines]
    return [
        event["subject"] for event in told if event["kind"] in ("test.happened", "cohort.changed")
    ]


async def collect(feed: EventFeed, caller: Principal, after: int, until: str) -> list[str]:
    """What a watcher gets from `after` on, up to and with the subject `until`."""
    found: list[str] = []
    async with asyncio.timeout(SECONDS):
        while until not in found:
            batch = await feed.read_batch(after, caller)
            after = batch.after
            found += subjects(batch.lines)
            if not batch.behind and until not in found:
                await feed.wait_for_events(after, SECONDS)
    return found


def test_two_hundred_watchers_cost_an_event_one_query(house: House) -> None:
    feed = EventFeed(house.store)

    async def scenario() -> list[str]:
        start = (await feed.read_batch(2**40, house.admin)).after
        watching = [
            asyncio.create_task(collect(feed, house.admin, 0, "last")) for _ in range(WATCHERS)
        ]
        assert start
        while sum(task.done() for task in watching) or feed._catching_up._waiters:
            await asyncio.sleep(0)
        with queries_of_the_log(house) as seen:
            await asyncio.to_thread(happen, house, "last")
            found = await asyncio.gather(*watching)
        assert found == [["last"]] * WATCHERS
        return seen

    assert len(asyncio.run(scenario())) == 1


def test_watchers_that_come_back_after_a_restart_share_one_query_too(house: House) -> None:
    happen(house, *(f"n-{n}" for n in range(50)))
    feed = EventFeed(house.store)

    async def scenario() -> None:
        found = await asyncio.gather(
            *(collect(feed, house.admin, 0, "n-49") for _ in range(WATCHERS))
        )
        assert found == [[f"n-{n}" for n in range(50)]] * WATCHERS

    with queries_of_the_log(house) as seen:
        asyncio.run(scenario())
    assert len(seen) == 1


def test_events_of_one_commit_come_once_and_in_order(house: House) -> None:
    feed = EventFeed(house.store)

    async def scenario() -> list[str]:
        watching = asyncio.create_task(collect(feed, house.admin, 0, "n-49"))
        for n in range(0, 50, 5):
            await asyncio.to_thread(happen, house, *(f"n-{k}" for k in range(n, n + 5)))
        return await watching

    assert asyncio.run(scenario()) == [f"n-{n}" for n in range(50)]


def test_a_watcher_behind_the_buffer_misses_nothing(house: House) -> None:
    feed = EventFeed(house.store, buffer_events=10)
    wanted = [f"n-{n}" for n in range(2 * EVENTS_AT_ONCE + 30)]

    async def scenario() -> list[str]:
        await feed.read_batch(0, house.admin)
        for n in range(0, len(wanted), 300):
            await asyncio.to_thread(happen, house, *wanted[n : n + 300])
        return await collect(feed, house.admin, 0, wanted[-1])

    assert asyncio.run(scenario()) == wanted


@pytest.mark.parametrize("buffer_events", [1, 4096])
def test_a_watcher_sees_its_own_tenant_and_the_pool_alone(house: House, buffer_events: int) -> None:
    house.tenancy.tenants.create(house.admin, "one", None)
    house.tenancy.tenants.create(house.admin, "two", None)
    anna, ben = house.member("anna", "one"), house.member("ben", "two")
    feed = EventFeed(house.store, buffer_events=buffer_events)

    async def scenario() -> dict[str, list[str]]:
        await feed.read_batch(0, house.admin)
        with house.store.write() as write:  # tells of what other tenants may have
            write.event("cohort.changed", "both")
        for name, tenant_id in (
            ("of one", anna.tenant_id),
            ("of two", ben.tenant_id),
            ("of all", None),
        ):
            await asyncio.to_thread(happen, house, name, tenant_id=tenant_id)
        people = {"anna": anna, "ben": ben, "admin": house.admin}
        return {name: await collect(feed, caller, 0, "of all") for name, caller in people.items()}

    assert asyncio.run(scenario()) == {
        "anna": ["of one", "of all"],
        "ben": ["of two", "of all"],
        "admin": ["both", "of one", "of two", "of all"],
    }


def test_waiting_ends_at_a_commit_and_never_spins(house: House) -> None:
    feed = EventFeed(house.store)

    async def scenario() -> None:
        batch = await feed.read_batch(0, house.admin)
        while batch.behind:
            batch = await feed.read_batch(batch.after, house.admin)
        assert not await feed.wait_for_events(batch.after, 0.01)
        await asyncio.to_thread(happen, house, "one")
        assert await feed.wait_for_events(batch.after, SECONDS)
        batch = await feed.read_batch(batch.after, house.admin)
        assert (subjects(batch.lines), batch.behind) == (["one"], False)
        # The buffer has a commit a moment before those who wait are woken for it.
        while feed._is_waking():
            await asyncio.sleep(0)
        assert not await feed.wait_for_events(batch.after, 0.01)

    asyncio.run(scenario())


def test_many_watchers_share_a_wake_up_of_commits_that_come_fast(house: House) -> None:
    feed = EventFeed(house.store)
    wakes = 0

    async def watch(after: int) -> list[str]:
        nonlocal wakes
        found: list[str] = []
        async with asyncio.timeout(SECONDS):
            while "last" not in found:
                await feed.wait_for_events(after, SECONDS)
                wakes += 1
                batch = await feed.read_batch(after, house.admin)
                after = batch.after
                found += subjects(batch.lines)
        return found

    async def scenario() -> list[list[str]]:
        batch = await feed.read_batch(0, house.admin)
        while batch.behind:
            batch = await feed.read_batch(batch.after, house.admin)
        watching = [asyncio.create_task(watch(batch.after)) for _ in range(WATCHERS)]
        while feed.waiting < WATCHERS:
            await asyncio.sleep(0)
        await asyncio.to_thread(happen, house, "first")
        while not wakes:
            await asyncio.sleep(0)
        # Within the pause after the first wake-up.
        for name in ("second", "third", "last"):
            happen(house, name)
        return await asyncio.gather(*watching)

    assert asyncio.run(scenario()) == [["first", "second", "third", "last"]] * WATCHERS
    assert wakes <= 3 * WATCHERS


def test_a_read_that_fails_is_told_and_the_next_one_reads(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = EventFeed(house.store)

    def broken(_after: int) -> list[Any]:
        raise OSError("no descriptors")

    async def scenario() -> list[str]:
        last = await feed.read_batch(0, house.admin)
        with monkeypatch.context() as patched:
            patched.setattr(feed, "_read_entries", broken)
            await asyncio.to_thread(happen, house, "one")
            assert await feed.wait_for_events(last.after, SECONDS)
            with pytest.raises(OSError, match="no descriptors"):
                await feed.read_batch(last.after, house.admin)
        return await collect(feed, house.admin, 0, "one")

    assert asyncio.run(scenario()) == ["one"]
