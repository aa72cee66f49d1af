"""The map as it is sent: built once until it changes, with as many queries for any pool."""

from __future__ import annotations

import gzip
import json

import pytest
import sqlalchemy as sa

from gpupool.allocations.services.pool_map import MOST_MAPS
from gpupool.base.errors import NotFound
from gpupool.model.tenant import Principal, UserRole
from tests.support.house import House


@pytest.fixture
def statements(house: House) -> list[str]:
    """Statements of the house's database from now on."""
    found: list[str] = []

    def record(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):
            found.append(statement)

    sa.event.listen(house.store.engine, "before_cursor_execute", record)
    return found


def test_an_unchanged_pool_has_one_map_and_asks_the_database_nothing(
    house: House, statements: list[str]
) -> None:
    first = house.allocations.pool_map.read_map(house.admin)
    statements.clear()
    assert house.allocations.pool_map.read_map(house.admin) is first
    assert statements == []


def test_a_submission_changes_the_map_and_its_tag(house: House) -> None:
    before = house.allocations.pool_map.read_map(house.admin)
    house.submit(300, 8)
    after = house.allocations.pool_map.read_map(house.admin)
    assert after.tag != before.tag
    found = json.loads(after.body)
    assert found["shares"] == [0, 0, 300]
    assert after.tag.startswith(f"{found['seq']}-")
    assert gzip.decompress(after.compressed) == after.body


def test_the_number_of_queries_does_not_grow_with_the_pool(
    house: House, statements: list[str]
) -> None:
    counts = []
    for cards in (2, 400):
        house.register(cards, f"node-of-{cards}")
        house.allocations.pool_map.read_map(house.admin)
        house.submit(100, 1)
        statements.clear()
        found = json.loads(house.allocations.pool_map.read_map(house.admin).body)
        counts.append(len(statements))
    assert len(found["cards"]["id"]) == 404
    # The cards are known: only the shares changed, and they are in the cache.
    assert counts == [0, 0]


def test_a_card_that_fails_is_on_the_next_map(house: House) -> None:
    house.allocations.pool_map.read_map(house.admin)
    house.fleet.release_devices(["node-1:1"], drain=False, principal=house.admin)
    found = json.loads(house.allocations.pool_map.read_map(house.admin).body)
    assert found["cards"]["state"] == ["adopted", "observed"]


def test_each_tenant_has_a_map_of_its_own(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    guest = house.member("guest", "lab")
    house.submit(300, 8)
    mine = json.loads(house.allocations.pool_map.read_map(house.admin).body)
    seen = json.loads(house.allocations.pool_map.read_map(guest).body)
    assert (mine["tenants"], mine["shares"]) == (["default"], [0, 0, 300])
    assert (seen["tenants"], seen["shares"]) == (["lab"], [0, -1, 300])


def test_a_caller_with_an_earlier_map_gets_the_cards_that_changed(house: House) -> None:
    service = house.allocations.pool_map
    before = json.loads(service.read_map(house.admin).body)
    house.submit(300, 8)
    found = service.read_changes(house.admin, before["cursor"])
    assert found is not None
    after = json.loads(service.read_map(house.admin).body)
    assert found.cursor == after["cursor"] != before["cursor"]
    assert (found.changed, found.shares) == ([0], after["shares"])
    assert found.rows.held_milli == [300]


def test_a_cursor_of_another_tenant_or_server_is_answered_with_the_whole_map(
    house: House,
) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    guest = house.member("guest", "lab")
    cursor = json.loads(house.allocations.pool_map.read_map(house.admin).body)["cursor"]
    assert house.allocations.pool_map.read_changes(guest, cursor) is None
    house.restart()
    assert house.allocations.pool_map.read_changes(house.admin, cursor) is None


def test_maps_of_many_tenants_do_not_pile_up(house: House) -> None:
    for number in range(MOST_MAPS + 5):
        caller = Principal(9, "someone", number, f"tenant-{number}", UserRole.VIEWER)
        house.allocations.pool_map.read_map(caller)
    assert len(house.allocations.pool_map._maps) == MOST_MAPS


def test_the_shares_of_a_card_name_jobs_of_the_callers_tenant_alone(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    guest = house.member("guest", "lab")
    house.submit(300, 8, name="secret")
    house.submit(100, 1, name="mine", principal=guest)
    seen = house.allocations.pool_map.list_card_shares("node-1:0", guest)
    assert [(share.name, share.tenant, share.gpu_milli) for share in seen] == [
        (None, None, 300),
        ("mine", "lab", 100),
    ]
    everything = house.allocations.pool_map.list_card_shares("node-1:0", house.admin)
    assert [share.name for share in everything] == ["secret", "mine"]
    assert house.allocations.pool_map.list_card_shares("node-1:1", guest) == []


def test_the_shares_of_an_unknown_card_are_not_found(house: House) -> None:
    with pytest.raises(NotFound):
        house.allocations.pool_map.list_card_shares("node-9:0", house.admin)
