"""The copy in memory follows the ledger in the order of its commits, whoever commits when."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tests.support.house import House


def at_first(house: House, topic: str, do: Callable[[], object]) -> None:
    """Do this when somebody first hears of a commit about that: before the committing thread goes
    on."""
    left = [do]

    def listen(topics: frozenset[Hashable]) -> None:
        if left and any(
            one == topic or (isinstance(one, tuple) and one[0] == topic) for one in topics
        ):
            left.pop()()

    house.store.notifier.add_listener(listen)


def test_a_job_that_its_node_gives_back_at_once_waits_again_and_is_placed_again(
    house: House,
) -> None:
    house.submit(1000, None, name="one", count=2)
    waits = house.submit(1000, None, name="waits")

    def give_back() -> None:
        (item,) = (one for one in house.work() if one.job == waits.id)
        house.report(item, "not_started", reason="no supervisor")

    house.finish("one")
    at_first(house, "node", give_back)
    house.allocations.placer.run_cycle()
    assert house.job("waits").state == "pending"
    house.allocations.placer.run_cycle()
    assert house.job("waits").state == "starting"


def test_a_job_that_ends_at_once_is_not_taken_for_one_that_holds_cards(house: House) -> None:
    house.submit(1000, None, name="one", count=2)
    quick = house.submit(1000, None, name="quick")

    def end() -> None:
        (item,) = (one for one in house.work() if one.job == quick.id)
        house.report(item, "ended", exit_code=0)

    house.finish("one")
    at_first(house, "node", end)
    house.allocations.placer.run_cycle()
    assert house.job("quick").state == "done"
    assert house.allocations.cache.build_snapshot().running == ()
