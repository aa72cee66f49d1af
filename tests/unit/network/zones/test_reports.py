"""What the agent says of zones, as the server keeps it."""

from __future__ import annotations

from gpupool.network.zones.reports import list_reported, read_zone_northbound
from gpupool.wire.network.networks import NetworkEngineIn
from gpupool.wire.network.zones import NetworkZoneReport
from tests.unit.network.conftest import NetworkHouse

READY = NetworkZoneReport(number=1, state="ready", northbound="unix:/one", daemons=6)


def enable(house: NetworkHouse) -> None:
    house.allocations.network_engine.enable(NetworkEngineIn(zone_size=1))
    for name in "ab":
        house.create_network(name, "10.0.0.0/24")


def report(house: NetworkHouse, *zones: NetworkZoneReport) -> None:
    house.tell_engine("ready", northbound="unix:/zero", zones=list(zones))


def find_northbound(house: NetworkHouse) -> str | None:
    with house.store.read() as connection:
        return read_zone_northbound(connection, 1)


def test_an_agent_that_starts_and_says_nothing_of_a_zone_changes_nothing(
    house: NetworkHouse,
) -> None:
    enable(house)
    report(house, READY)
    report(house)
    assert find_northbound(house) == "unix:/one"
    report(house, READY.model_copy(update={"state": "failed", "reason": "no memory"}))
    assert find_northbound(house) is None
    state = house.allocations.network_engine.get_state()
    assert [(one.number, one.state, one.reason) for one in state.zones] == [
        (0, "ready", ""),
        (1, "failed", "no memory"),
    ]
    assert house.allocations.network_engine.check().state == "fail"


def test_a_zone_without_networks_is_forgotten(house: NetworkHouse) -> None:
    enable(house)
    report(house, READY)
    house.allocations.networks.delete_network(house.admin, "b")
    report(house, READY)
    with house.store.read() as connection:
        assert list_reported(connection) == []
