"""Wake-ups: none is lost, a spurious one is harmless, and nobody else's failure matters."""

import asyncio
import threading

from gpupool.store.notifier import CommitNotifier


def test_a_waiter_is_woken_by_its_topic_and_not_by_another() -> None:
    async def wait() -> tuple[bool, bool]:
        notifier = CommitNotifier()
        with notifier.subscribe(("job", "j-1"), "fleet") as subscription:
            notifier.publish_topics({("job", "j-2")})
            other = await subscription.wait_for_commit(0.02)
            threading.Thread(target=notifier.publish_topics, args=({("job", "j-1")},)).start()
            return other, await subscription.wait_for_commit(10)

    assert asyncio.run(wait()) == (False, True)


def test_what_is_published_between_registering_and_waiting_is_not_lost() -> None:
    async def wait() -> bool:
        notifier = CommitNotifier()
        with notifier.subscribe("queue") as subscription:
            notifier.publish_topics({"queue"})
            return await subscription.wait_for_commit(10)

    assert asyncio.run(wait())


def test_one_wake_up_is_one() -> None:
    async def wait() -> tuple[bool, bool]:
        notifier = CommitNotifier()
        with notifier.subscribe("queue") as subscription:
            notifier.publish_topics({"queue"})
            return await subscription.wait_for_commit(10), await subscription.wait_for_commit(0.02)

    assert asyncio.run(wait()) == (True, False)


def test_a_waiter_that_left_is_forgotten() -> None:
    async def wait() -> CommitNotifier:
        notifier = CommitNotifier()
        with notifier.subscribe("queue", "fleet"):
            pass
        return notifier

    assert not asyncio.run(wait())._subscriptions


def test_a_waiter_whose_loop_is_closed_stops_nobody() -> None:
    notifier = CommitNotifier()
    heard: list[frozenset[object]] = []
    notifier.add_listener(heard.append)

    async def enter() -> None:
        notifier.subscribe("queue").__enter__()

    asyncio.run(enter())
    notifier.publish_topics({"queue"})
    assert heard == [frozenset({"queue"})]


def test_a_listener_that_fails_stops_no_other() -> None:
    notifier = CommitNotifier()
    heard: list[frozenset[object]] = []
    notifier.add_listener(lambda _topics: 1 / 0)  # type: ignore[arg-type,return-value]
    notifier.add_listener(heard.append)
    notifier.publish_topics({"queue"})
    assert heard == [frozenset({"queue"})]
