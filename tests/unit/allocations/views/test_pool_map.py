"""The map: what each caller sees of cards and shares, and how many bytes a large pool takes."""

from __future__ import annotations

import gzip
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpupool.allocations.views.pool_map import (
    CardRoster,
    ClusterUse,
    build_map,
    find_present_mechanism,
    read_cluster_use,
    read_roster,
)
from gpupool.base.units import GIB
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import (
    CardOffers,
    MechanismOffer,
    OfferAvailability,
    SizeClass,
)
from gpupool.scheduling import RunningJob
from gpupool.wire.views.pool_map import MapNodes, MapOut
from tests.support.house import House
from tests.support.scheduling_builders import cards, shape, snapshot

#: Of a large pool.
CARDS = 10_000
NODES = 1250
#: What a console fetches of it once, as it is sent.
MOST_BYTES = 250_000


def read_map(house: House, tenant: str | None = None) -> MapOut:
    with house.store.read() as connection:
        roster = read_roster(connection)
        clusters = read_cluster_use(connection, roster)
    found = house.allocations.cache.build_snapshot()
    return build_map(house.store.noted_seq, roster, found, clusters, {"GPU-node-1-1": 42.0}, tenant)


def test_each_column_has_an_entry_for_each_card(house: House) -> None:
    house.register(3, "node-2", labels={"rack": "r7", "gpupool.io/level-nvl": "d1"})
    house.allocations.placer.load()
    found = read_map(house)
    assert found.nodes.name == ["node-1", "node-2"]
    assert found.nodes.rack == [None, "r7"]
    assert found.nodes.domain == [None, "d1"]
    columns = found.cards.model_dump()
    assert {name: len(column) for name, column in columns.items()} == dict.fromkeys(columns, 5)
    assert found.cards.node == [0, 0, 1, 1, 1]
    assert found.cards.index == [0, 1, 0, 1, 2]
    assert found.models == ["H200"]
    assert set(found.cards.state) == {"adopted"}
    assert found.cards.used_milli == [None, 420, None, None, None]
    assert found.simulated is True


def test_held_amounts_and_shares_follow_a_submission(house: House) -> None:
    house.submit(300, 8, name="one")
    house.submit(200, 4, name="two")
    found = read_map(house)
    assert found.tenants == ["default"]
    assert found.shares == [0, 0, 300, 0, 0, 200]
    assert found.share_mib == [8 * 1024, 4 * 1024]
    assert found.cards.held_milli == [500, 0]
    assert found.cards.held_bytes == [12 * GIB, 0]
    assert found.cards.largest_milli == [500, 1000]


def test_another_tenants_share_has_an_amount_and_no_name(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    house.submit(300, 8, name="secret")
    seen = read_map(house, "lab")
    assert seen.tenants == ["lab"]
    assert seen.shares == [0, -1, 300]
    assert "default" not in seen.model_dump_json()


@pytest.mark.parametrize(
    ("state", "health"), [("draining", "ok"), ("observed", "ok"), ("adopted", "failed")]
)
def test_a_card_that_cannot_be_handed_out_has_no_placeable_share(
    house: House, state: str, health: str
) -> None:
    with house.store.read() as connection:
        roster = read_roster(connection)
    card = SimpleNamespace(**{**roster.cards[0]._mapping, "state": state, "health": health})
    changed = CardRoster([card, roster.cards[1]], *list(vars(roster).values())[1:])
    found = build_map(
        0, changed, house.allocations.cache.build_snapshot(), ClusterUse({}, ()), {}, None
    )
    assert found.cards.largest_milli == [0, 1000]


def test_the_mechanism_of_a_card_is_that_of_a_share_before_that_of_whole_cards() -> None:
    whole = MechanismOffer("whole", sizes=SizeClass.WHOLE)
    fence = MechanismOffer("fence")
    vm = MechanismOffer("passthrough", hosts=(HostKind.VM,))
    later = MechanismOffer("mig", availability=OfferAvailability.AFTER_SWITCH)
    assert find_present_mechanism(CardOffers((vm, later, whole, fence))) == "fence"
    assert find_present_mechanism(CardOffers((later, vm))) == "passthrough"
    assert find_present_mechanism(CardOffers((later,))) is None


def test_ten_thousand_cards_take_few_bytes() -> None:
    table = cards(f"{NODES}x8xH200")
    nodes = MapNodes(
        name=list(table.nodes),
        rack=[f"r{node // 16}" for node in range(NODES)],
        domain=[f"d{node // 4}" for node in range(NODES)],
    )
    rows = []
    for row, uuid in enumerate(table.uuids):
        rows.append(
            SimpleNamespace(
                id=row + 1,
                uuid=uuid,
                idx=row % 8,
                memory_bytes=140 * GIB,
                state="adopted",
                health="ok",
                used_milli=0,
                used_bytes=0,
            )
        )
    node_of_card = table.node.tolist()
    roster = CardRoster(rows, nodes, node_of_card, [0] * CARDS, ["H200"], True, False)
    # Two shares on each card, of sizes and tenants that follow no pattern which packs well.
    running = []
    for number in range(2 * CARDS):
        milli = 50 + number * 37 % 400
        size = (1 + number * 13 % 60) * GIB
        tenant = f"team-{number * 7 % 40}"
        job = RunningJob(
            f"j-{number}", tenant, 0, (number // 2,), (milli,), (size,), shape(), number
        )
        running.append(job)
        table.free_milli[number // 2] -= milli
        table.free_bytes[number // 2] -= size
    busy = {uuid: float(number * 31 % 101) for number, uuid in enumerate(table.uuids)}
    pool = replace(snapshot(table), running=tuple(running))
    found = build_map(7, roster, pool, ClusterUse({}, ()), busy, None)
    body = found.model_dump_json().encode()
    sent = gzip.compress(body, 4, mtime=0)
    assert len(found.cards.id) == CARDS
    assert len(found.share_mib) == 2 * CARDS
    assert sum(found.cards.held_milli) == sum(found.shares[2::3])
    assert len(sent) <= MOST_BYTES, f"{len(body)} bytes, {len(sent)} as sent"
