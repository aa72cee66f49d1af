"""What other packages changed is read once, and what failed to be read is read again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.plane_labels import PlaneLabels
from gpupool.allocations.placement.cache_refresh import CacheRefresh
from gpupool.fleet.tables import devices
from tests.support.house import House


@pytest.fixture
def refresh(house: House) -> CacheRefresh:
    return CacheRefresh(house.store, house.allocations.cache)


def known_tenants(house: House) -> set[str]:
    return set(house.allocations.cache.build_snapshot().tenants)


def test_refresh_reads_the_marked_parts_alone(house: House, refresh: CacheRefresh) -> None:
    house.tenancy.tenants.create(house.admin, "blue", None)
    house.register(1, "node-2")
    refresh.refresh()
    refresh.mark_topics({"fleet", ("job", "j-1")})
    refresh.refresh()
    assert len(house.allocations.cache.build_snapshot().cards) == 3
    assert known_tenants(house) == {"default"}
    refresh.mark_topics({"quota"})
    refresh.refresh()
    assert known_tenants(house) == {"default", "blue"}


def test_a_part_whose_reading_failed_is_read_by_the_next_refresh(
    house: House, refresh: CacheRefresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_connection: sa.Connection) -> None:
        raise ZeroDivisionError

    house.tenancy.tenants.create(house.admin, "blue", None)
    refresh.mark_topics({"quota"})
    with monkeypatch.context() as patch:
        patch.setattr(house.allocations.cache, "load_tenants", fail)
        with pytest.raises(ZeroDivisionError):
            refresh.refresh()
    refresh.refresh()
    assert "blue" in known_tenants(house)


def test_only_new_cards_ask_for_a_search_for_jobs_to_recover(refresh: CacheRefresh) -> None:
    assert refresh.has_new_cards, "a server that starts has to search once"
    refresh.has_new_cards = False
    refresh.mark_topics({"quota", "reservations"})
    refresh.refresh()
    assert not refresh.has_new_cards
    refresh.mark_topics({"fleet"})
    refresh.refresh()
    assert refresh.has_new_cards


def test_allocated_amounts_are_read_of_all_cards_or_of_the_named(
    house: House, refresh: CacheRefresh
) -> None:
    def free() -> list[int]:
        return house.allocations.cache.build_snapshot().cards.free_milli.tolist()

    with house.store.write() as write:
        newer = {"used_milli": 300, "generation": devices.c.generation + 1}
        write.execute(devices.update().values(**newer))
    refresh.read_cards(["GPU-node-1-1"])
    assert free() == [1000, 700]
    refresh.read_allocated_amounts()
    assert free() == [700, 700]


def test_a_mark_of_another_commit_of_the_same_moment_is_kept(
    refresh: CacheRefresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[sa.Connection]()
    monkeypatch.setattr(PlaneLabels, "is_used", True)
    monkeypatch.setattr(
        PlaneLabels, "has_changed", lambda _labels, connection: looks.append(connection)
    )

    class InterruptedTopics(frozenset[str]):
        """Topics of a commit between whose look-ups another commit runs."""

        def __iter__(self) -> Iterator[str]:
            refresh.mark_topics({"network-engine"})
            return super().__iter__()

    refresh.refresh()
    refresh.mark_topics(InterruptedTopics({"queue"}))
    refresh.refresh()
    assert len(looks) == 1
