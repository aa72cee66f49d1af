"""Releases of allocations: seats, cards, holdings and the meter agree afterwards."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.releases import release_allocations
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.units import GIB
from gpupool.fleet.tables import devices
from gpupool.metering.tables import intervals
from tests.support.house import House
from tests.support.ledger_sums import held, used


def release(house: House, *names: str) -> LedgerChange:
    with house.store.write() as write:
        query = (
            sa.select(allocations.c.id, jobs.c.tenant_id).join(jobs).where(jobs.c.name.in_(names))
        )
        tenant_of = {row.id: row.tenant_id for row in write.execute(query)}
        assert len(tenant_of) == len(names)
        return release_allocations(write, house.metering, house.fleet, tenant_of, names)


def test_a_release_gives_back_the_seats_of_these_allocations_alone(house: House) -> None:
    house.submit(300, 8, name="a")
    house.submit(500, 20, name="b")
    change = release(house, "a")
    assert used(house)[0] == (500, 20 * GIB, 1)
    assert held(house) == (500, 20 * GIB)
    assert [(card.uuid, card.used_milli) for card in change.cards] == [("GPU-node-1-0", 500)]
    assert ([row.held_milli for row in change.tenants], change.returned) == ([500], ("a",))
    with house.store.read() as connection:
        states = connection.execute(sa.select(allocations.c.state).order_by(allocations.c.id))
        assert list(states.scalars()) == ["released", "granted"]
        closed = sa.select(intervals.c.gpu_milli).where(intervals.c.end_s.is_(None))
        assert list(connection.execute(closed).scalars()) == [500]


def test_several_allocations_on_one_card_are_one_change_of_it(house: House) -> None:
    for name in ("a", "b"):
        house.submit(300, 8, name=name)
    with house.store.read() as connection:
        before = connection.execute(sa.select(sa.func.min(devices.c.generation))).scalar_one()
    change = release(house, "a", "b")
    assert used(house)[0] == (0, 0, 0)
    assert len(change.cards) == len(change.tenants) == 1
    assert change.cards[0].generation > before


def test_a_draining_card_is_settled_with_its_last_seat(house: House) -> None:
    for name in ("a", "b"):
        house.submit(300, 8, name=name)
    house.fleet.release_devices(["node-1:0"], True, house.admin)
    release(house, "a")
    assert house.fleet.get_device("node-1:0", house.admin).state == "draining"
    release(house, "b")
    assert house.fleet.get_device("node-1:0", house.admin).state == "observed"


def test_a_release_of_nothing_changes_nothing(house: House) -> None:
    house.submit(300, 8, name="a")
    with house.store.write() as write:
        assert release_allocations(write, house.metering, house.fleet, {}) == LedgerChange()
        assert not write._touched
