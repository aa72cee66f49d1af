"""Lines take VLANs that are open and free, and share no address with what is there."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadAddress,
    NameTaken,
    NetworkingUnavailable,
    OverlappingSubnets,
    SecretKeyWrong,
    StillInUse,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.network.lines.service import LineService
from gpupool.network.lines.tables import network_lines
from gpupool.network.reading import read_networks
from gpupool.store.tables import events
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.lines import LineOut, LineRefusal, LineReport, LineWork
from gpupool.wire.network.networks import NetworkEngineIn, SubnetIn
from tests.support.dedicated_lines import make_body
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def lines(house: NetworkHouse) -> LineService:
    house.enable()
    house.create_network("lab", "10.0.0.0/24")
    open_vlans(house, "200-210")
    return house.allocations.network_lines


def open_vlans(house: NetworkHouse, vlans: str, interface: str = "eth1") -> None:
    body = NetworkEngineIn(line_interface=interface, line_vlans=vlans)
    house.allocations.network_engine.enable(body)


def create(house: NetworkHouse, network: str = "lab", **more: Any) -> LineOut:
    return house.allocations.network_lines.create_line(house.admin, network, make_body(**more))


def list_work(house: NetworkHouse) -> list[LineWork]:
    with house.store.read() as connection:
        _, work = house.allocations.network_engine.read_work(connection, "node-1", 0)
    assert work is not None
    assert work.line_interface == "eth1"
    return work.lines


def report(house: NetworkHouse, line: LineOut, **more: Any) -> None:
    seen = LineReport.model_validate({"id": line.id, "state": "up", **more})
    sent = NetworkEngineReport(state="ready", northbound="unix:/nowhere", lines=[seen])
    house.allocations.agents.apply_reports("node-1", ReportsIn(network=sent))


def list_kinds(house: NetworkHouse) -> list[str]:
    with house.store.read() as connection:
        kinds = connection.execute(sa.select(events.c.kind).order_by(events.c.seq)).scalars()
        return [kind for kind in kinds if kind.startswith("network.line_")]


def test_the_agent_learns_of_a_line_with_its_key_that_no_answer_has(
    house: NetworkHouse, lines: LineService
) -> None:
    made = create(house, key="hidden-key", bfd=True)
    assert (made.state, made.has_key, made.announced) == ("starting", True, ["10.0.0.0/24"])
    (work,) = list_work(house)
    assert (work.key, work.bfd, work.announced) == ("hidden-key", True, ["10.0.0.0/24"])
    shown = lines.get_line(house.admin, "lab", made.id)
    assert "hidden-key" not in shown.model_dump_json()


def test_a_key_is_encrypted_and_without_the_pools_key_the_agent_goes_on_with_what_it_has(
    house: NetworkHouse, lines: LineService, caplog: pytest.LogCaptureFixture
) -> None:
    create(house, key="hidden-key")
    with house.store.read() as connection:
        stored = connection.execute(sa.select(network_lines.c.secret_key)).scalar_one()
    assert stored is not None
    assert stored.startswith("gpenc1.")
    house.lose_key()
    with house.store.read() as connection:
        assert house.allocations.network_engine.read_work(connection, "node-1", 0) == (0, None)
    assert "node-1 gets no work of networks: the secrets need the key" in caplog.text
    house.create_network("other", "10.9.0.0/24")
    with pytest.raises(SecretKeyWrong):
        create(house, "other", vlan=201, key="other-key")
    assert len(lines.list_lines(house.admin, "lab")) == 1


def test_a_new_subnet_is_announced_unless_the_line_names_others(
    house: NetworkHouse, lines: LineService
) -> None:
    create(house)
    create(
        house,
        vlan=201,
        address="192.168.201.1/29",
        peer="192.168.201.6",
        allowed=["172.21.0.0/16"],
        announced=["10.0.0.0/24"],
    )
    subnet = SubnetIn(name="more", cidr="10.0.1.0/24")
    house.allocations.networks.create_subnet(house.admin, "lab", subnet)
    announced = [work.announced for work in list_work(house)]
    assert announced == [["10.0.0.0/24", "10.0.1.0/24"], ["10.0.0.0/24"]]


def test_a_vlan_is_refused_where_it_is_closed_or_taken(
    house: NetworkHouse, lines: LineService
) -> None:
    create(house)
    house.create_network("other", "10.0.0.0/24")
    with pytest.raises(NameTaken, match="VLAN 200"):
        create(house, "other")
    with pytest.raises(WrongState, match="VLAN 211 is not for tenants; 200-210 are"):
        create(house, "other", vlan=211)
    assert create(house, "other", vlan=210).vlan == 210
    with pytest.raises(StillInUse, match="VLAN 210"):
        open_vlans(house, "200-209")
    with pytest.raises(StillInUse, match="VLAN 200, 210"):
        open_vlans(house, "200-210", "eth2")


def test_without_an_open_interface_or_an_engine_there_is_no_line(house: NetworkHouse) -> None:
    house.create_network("lab", "10.0.0.0/24")
    with pytest.raises(NetworkingUnavailable):
        create(house)
    house.enable()
    with pytest.raises(WrongState, match="no interface"):
        create(house)
    with pytest.raises(BadAddress, match="no range of VLANs"):
        open_vlans(house, "0-9")


def test_what_is_open_for_lines_outlives_an_engine_that_is_disabled(
    house: NetworkHouse, lines: LineService
) -> None:
    made = create(house)
    report(house, made, learned=["172.20.0.0/16"])
    before = house.allocations.agents.read_work("node-1", 0).cursor
    # The same again, as after the installation of a package, reaches the agent.
    open_vlans(house, "200-210")
    assert house.allocations.agents.read_work("node-1", before).network is not None
    house.allocations.network_engine.disable()
    house.tell_engine("stopped")
    shown = lines.get_line(house.admin, "lab", made.id)
    assert (shown.state, shown.learned) == ("off", [])
    house.enable()
    assert [work.id for work in list_work(house)] == [made.id]


@pytest.mark.parametrize(
    ("more", "clash"),
    [
        ({"allowed": ["10.0.0.0/25"]}, "10.0.0.0/25 and 10.0.0.0/24 of network lab"),
        ({"allowed": ["172.20.5.0/24"]}, "172.20.5.0/24 and 172.20.0.0/16 of another line"),
        ({"allowed": ["10.7.0.0/16"]}, "10.7.0.0/16 and 10.7.1.0/24 of a peered network"),
    ],
)
def test_a_line_shares_no_address_with_subnets_lines_and_peerings(
    house: NetworkHouse, lines: LineService, more: dict[str, Any], clash: str
) -> None:
    create(house)
    peer(house, "10.7.1.0/24")
    link = {"vlan": 201, "address": "192.168.201.1/29", "peer": "192.168.201.6"}
    with pytest.raises(OverlappingSubnets) as refusal:
        create(house, **link, **more)
    assert clash in refusal.value.message
    assert [line.vlan for line in lines.list_lines(house.admin, "lab")] == [200]


def peer(house: NetworkHouse, cidr: str) -> None:
    other = house.create_network("other", cidr)
    peerings = house.allocations.network_peerings
    made = peerings.request_peering(house.admin, "lab", other.id)
    peerings.accept_peering(house.admin, "other", made.id)


def test_subnets_and_peerings_share_no_address_with_a_line(
    house: NetworkHouse, lines: LineService
) -> None:
    create(house)
    networks = house.allocations.networks
    with pytest.raises(OverlappingSubnets, match=r"172.20.9.0/24.*a dedicated line"):
        networks.create_subnet(house.admin, "lab", SubnetIn(name="x", cidr="172.20.9.0/24"))
    with pytest.raises(OverlappingSubnets, match=r"172.20.1.0/24 and 172.20.0.0/16"):
        peer(house, "172.20.1.0/24")


def test_reports_become_routes_and_events_once(house: NetworkHouse, lines: LineService) -> None:
    made = create(house)
    refused = [LineRefusal(prefix="8.8.8.0/24", reason="not allowed")]
    for _ in range(2):
        report(house, made, learned=["172.20.0.0/16"], refused=refused, refused_count=1)
    shown = lines.get_line(house.admin, "lab", made.id)
    assert (shown.state, shown.learned, shown.refused) == ("up", ["172.20.0.0/16"], refused)
    report(house, made, state="down", reason="no carrier")
    assert lines.get_line(house.admin, "lab", made.id).learned == []
    with house.store.read() as connection:
        (network,) = read_networks(connection).values()
    assert network.lines[0].list_routes() == ()
    kinds = list_kinds(house)
    assert kinds == [f"network.line_{what}" for what in ("created", "up", "refused", "down")]


def test_a_network_has_four_lines_at_most_and_takes_them_along(
    house: NetworkHouse, lines: LineService
) -> None:
    for number in range(4):
        create(
            house,
            vlan=200 + number,
            address=f"192.168.{number}.1/29",
            peer=f"192.168.{number}.6",
            allowed=[f"172.{20 + number}.0.0/16"],
        )
    with pytest.raises(TooManyNetworks, match="4 is the most"):
        create(house, vlan=209)
    house.allocations.networks.delete_network(house.admin, "lab")
    assert list_work(house) == []


def test_a_deleted_line_is_gone_for_its_agent_and_its_late_report_changes_nothing(
    house: NetworkHouse, lines: LineService
) -> None:
    made = create(house)
    lines.delete_line(house.admin, "lab", made.id)
    assert list_work(house) == []
    report(house, made, learned=["172.20.0.0/16"])
    with pytest.raises(UnknownNetwork):
        lines.delete_line(house.admin, "lab", made.id)


OURS = {"inside": "10.0.0.0/24", "outside": "100.64.7.0/24"}
THEIRS = {"inside": "100.64.8.0/24", "outside": "10.0.0.0/24"}


def test_a_company_with_the_same_addresses_is_reached_by_translation(
    house: NetworkHouse, lines: LineService
) -> None:
    with pytest.raises(OverlappingSubnets, match=r"10\.0\.0\.0/24 of network lab"):
        create(house, allowed=["10.0.0.0/24"])
    translated = {"translations": [OURS], "peer_translations": [THEIRS]}
    line = create(house, allowed=["10.0.0.0/24"], **translated)
    assert line.announced == ["100.64.7.0/24"]
    assert [one.model_dump() for one in line.translations] == [OURS]
    assert [one.model_dump() for one in line.peer_translations] == [THEIRS]
    (work,) = list_work(house)
    assert work.announced == ["100.64.7.0/24"]
    assert [one.model_dump() for one in work.ours] == [OURS]
    assert [one.model_dump() for one in work.theirs] == [THEIRS]
    report(house, line, learned=["10.0.0.0/25"])
    shown = lines.get_line(house.admin, "lab", line.id)
    assert shown.learned == ["10.0.0.0/25"]
    # A later subnet is on the line as it is, and clashes with what either side sees.
    add = house.allocations.networks.create_subnet
    add(house.admin, "lab", SubnetIn(name="more", cidr="10.0.1.0/24"))
    assert list_work(house)[0].announced == ["100.64.7.0/24", "10.0.1.0/24"]
    assert list_work(house)[0].ours[1].outside == "10.0.1.0/24"
    # Nor may it be what the company has itself.
    lines.delete_line(house.admin, "lab", line.id)
    wide = {"inside": "100.65.0.0/16", "outside": "10.0.0.0/16"}
    with pytest.raises(OverlappingSubnets, match=r"would see 10\.0\.1\.0/24 as 10\.0\.1\.0/24"):
        create(house, allowed=["10.0.0.0/16"], translations=[OURS], peer_translations=[wide])
    house.allocations.networks.delete_subnet(house.admin, "lab", "more")
    line = create(house, allowed=["10.0.0.0/16"], translations=[OURS], peer_translations=[wide])
    with pytest.raises(OverlappingSubnets, match=r"has 10\.0\.0\.0/16 itself"):
        add(house.admin, "lab", SubnetIn(name="clash", cidr="10.0.1.0/24"))
    for cidr in ("100.64.7.0/24", "100.65.8.0/25"):
        with pytest.raises(OverlappingSubnets, match="a dedicated line"):
            add(house.admin, "lab", SubnetIn(name="clash", cidr=cidr))
    lines.delete_line(house.admin, "lab", line.id)
    assert list_work(house) == []
    create(house, vlan=201, allowed=["10.0.0.0/24"], **translated)
    house.allocations.networks.delete_network(house.admin, "lab")


def test_a_translation_names_a_subnet_and_addresses_of_no_one(
    house: NetworkHouse, lines: LineService
) -> None:
    foreign = {"inside": "10.0.9.0/24", "outside": "100.64.7.0/24"}
    with pytest.raises(BadAddress, match=r"10\.0\.9\.0/24 is not of the subnets of lab: 10\.0\.0"):
        create(house, translations=[foreign])
    own = {"inside": "10.0.0.0/24", "outside": "10.0.0.0/24"}
    with pytest.raises(OverlappingSubnets, match=r"10\.0\.0\.0/24 of network lab"):
        create(house, translations=[own])
    with pytest.raises(OverlappingSubnets, match=r"would see 10\.0\.0\.0/24 as 10\.0\.0\.0/24"):
        create(house, allowed=["10.0.0.0/24"], peer_translations=[THEIRS])
    special = {"inside": "10.0.0.0/24", "outside": "169.254.7.0/24"}
    with pytest.raises(BadAddress, match=r"169\.254\.7\.0/24 cannot be used on a line"):
        create(house, translations=[special])
    assert list_work(house) == []
