"""Wake-ups: none is lost, a spurious one is harmless, and nobody else's failure matters."""

import asyncio
import threading

from gpupool.store.hub import Hub


def test_a_waiter_is_woken_by_its_topic_and_not_by_another() -> None:
    async def wait() -> tuple[bool, bool]:
        hub = Hub()
        with hub.ticket(("job", "j-1"), "fleet") as ticket:
            hub.publish({("job", "j-2")})
            other = await ticket.wait(0.02)
            threading.Thread(target=hub.publish, args=({("job", "j-1")},)).start()
            return other, await ticket.wait(10)

    assert asyncio.run(wait()) == (False, True)


def test_what_is_published_between_registering_and_waiting_is_not_lost() -> None:
    async def wait() -> bool:
        hub = Hub()
        with hub.ticket("queue") as ticket:
            hub.publish({"queue"})
            return await ticket.wait(10)

    assert asyncio.run(wait())


def test_one_wake_up_is_one() -> None:
    async def wait() -> tuple[bool, bool]:
        hub = Hub()
        with hub.ticket("queue") as ticket:
            hub.publish({"queue"})
            return await ticket.wait(10), await ticket.wait(0.02)

    assert asyncio.run(wait()) == (True, False)


def test_a_waiter_that_left_is_forgotten() -> None:
    async def wait() -> Hub:
        hub = Hub()
        with hub.ticket("queue", "fleet"):
            pass
        return hub

    assert not asyncio.run(wait())._tickets


def test_a_waiter_whose_loop_is_closed_stops_nobody() -> None:
    hub = Hub()
    heard: list[frozenset[object]] = []
    hub.listen(heard.append)

    async def enter() -> None:
        hub.ticket("queue").__enter__()

    asyncio.run(enter())
    hub.publish({"queue"})
    assert heard == [frozenset({"queue"})]


def test_a_listener_that_fails_stops_no_other() -> None:
    hub = Hub()
    heard: list[frozenset[object]] = []
    hub.listen(lambda _topics: 1 / 0)  # type: ignore[arg-type,return-value]
    hub.listen(heard.append)
    hub.publish({"queue"})
    assert heard == [frozenset({"queue"})]
