"""The membership in an OVN of others: what agents get, what is refused, and how it ends."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable, WrongState
from gpupool.network.external import membership
from gpupool.network.external.membership import parse_ovn
from gpupool.network.external.tables import network_external_ovn
from gpupool.wire.network.engine import NetworkEngineWork
from gpupool.wire.network.external import ExternalOvnIn
from gpupool.wire.network.gateways import GatewayPairIn
from gpupool.wire.network.networks import NetworkEngineIn
from tests.unit.network.conftest import NetworkHouse

PLACE = "tcp:192.0.2.7:6641"


@pytest.fixture(autouse=True)
def databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases that answer: the real ones are in tests/hosts/test_network_existing_ovn.py."""
    monkeypatch.setattr(membership, "probe_ovn", lambda _store, _wanted: None)


def join(house: NetworkHouse, place: str = PLACE) -> None:
    body = NetworkEngineIn(ovn=ExternalOvnIn(northbound=place))
    house.allocations.network_engine.enable(body)


def read_work(house: NetworkHouse) -> NetworkEngineWork:
    with house.store.read() as connection:
        _, work = house.allocations.network_engine.read_work(connection, "node-1", 0)
    assert work is not None
    return work


def test_agents_connect_to_it_and_may_change_nothing_of_others(house: NetworkHouse) -> None:
    join(house)
    work = read_work(house)
    assert (work.southbound, work.is_external) == ("tcp:192.0.2.7:6642", True)
    assert work.certificate is None
    house.tell_engine("ready")
    assert house.allocations.network_engine.read_northbound() == PLACE
    shown = house.allocations.network_engine.get_state().ovn
    assert shown is not None
    assert (shown.northbound, shown.southbound) == (PLACE, "tcp:192.0.2.7:6642")


def test_its_key_is_encrypted_and_without_the_pools_key_the_engine_is_not_ready(
    house: NetworkHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[str]()
    monkeypatch.setattr(membership, "show_certificate", lambda _, key, __: shown.append(key))
    monkeypatch.setattr(membership, "check_credentials", lambda *_, **__: None)
    body = ExternalOvnIn(
        northbound="ssl:192.0.2.7:6641", certificate="c", private_key="k-1", trusted="t"
    )
    engine = house.allocations.network_engine
    engine.enable(NetworkEngineIn(ovn=body))
    with house.store.read() as connection:
        stored = connection.execute(sa.select(network_external_ovn.c.private_key)).scalar_one()
    assert stored.startswith("gpenc1.")
    certificate = read_work(house).certificate
    assert certificate is not None
    assert certificate.private_key == "k-1"
    house.tell_engine("ready")
    assert (engine.read_northbound(), shown) == ("ssl:192.0.2.7:6641", ["k-1"])
    house.lose_key()
    assert engine.read_northbound() is None
    engine.disable()
    house.tell_engine("stopped")
    assert engine.departure.read_remote() is None
    assert engine.get_state().reason.startswith("the pool's rows are not deleted yet: the secrets")
    assert shown == ["k-1"]


def test_an_engine_with_databases_does_not_move_to_others(house: NetworkHouse) -> None:
    house.enable()
    with pytest.raises(WrongState, match="databases of its own"):
        join(house)
    assert house.allocations.network_engine.get_state().ovn is None


def test_the_same_ovn_again_changes_nothing_and_another_one_is_refused(house: NetworkHouse) -> None:
    join(house)
    join(house)
    with pytest.raises(WrongState, match=f"the OVN at {PLACE}"):
        join(house, "tcp:192.0.2.8:6641")
    assert house.allocations.network_engine.read_northbound() is None
    assert read_work(house).southbound == "tcp:192.0.2.7:6642"


def test_what_changes_the_whole_ovn_is_refused(house: NetworkHouse) -> None:
    join(house)
    house.tell_engine("ready")
    with pytest.raises(WrongState, match=f"in the OVN at {PLACE}"):
        house.allocations.network_engine.enable(NetworkEngineIn(databases=["node-1"]))
    pair = GatewayPairIn(nodes=["node-1", "node-2"], address="192.0.2.9")
    with pytest.raises(WrongState, match="BFD timers for the whole OVN"):
        house.allocations.gateway_pairs.set_pair(pair)


def test_the_engine_is_off_when_the_rows_are_deleted(house: NetworkHouse) -> None:
    join(house)
    house.tell_engine("ready")
    engine = house.allocations.network_engine
    assert engine.departure.read_remote() is None
    engine.disable()
    house.tell_engine("stopped")
    assert engine.departure.read_remote() == PLACE
    engine.departure.note("the pool's rows are not deleted yet: no answer")
    state = engine.get_state()
    assert (state.state, state.reason) == (
        "stopping",
        "the pool's rows are not deleted yet: no answer",
    )
    engine.departure.note("")
    assert engine.get_state().state == "off"
    assert engine.get_state().ovn is None
    # The next start has databases of its own.
    engine.enable()
    assert read_work(house).is_external is False


def test_rows_that_nothing_can_delete_are_left_on_demand(house: NetworkHouse) -> None:
    join(house)
    engine = house.allocations.network_engine
    engine.disable()
    house.tell_engine("stopped")
    assert engine.get_state().state == "stopping"
    assert engine.disable(leaves_rows=True).state == "off"


def test_an_engine_that_is_enabled_while_it_ends_keeps_its_rows(house: NetworkHouse) -> None:
    join(house)
    engine = house.allocations.network_engine
    engine.disable()
    engine.departure.note("")
    engine.enable()
    assert engine.departure.read_remote() is None
    assert read_work(house).is_external is True
    engine.departure.note("")
    assert engine.disable().reason == ""
    # They were written again, so they are to be deleted again.
    assert engine.departure.read_remote() == PLACE


def test_a_database_that_does_not_answer_is_refused_with_its_place(
    house: NetworkHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    body = ExternalOvnIn(northbound="tcp:127.0.0.1:1")
    wanted = parse_ovn(body, house.store.clock.now_ns())
    with pytest.raises(NetworkingUnavailable, match=r"tcp:127\.0\.0\.1:1"):
        membership.probe_ovn(house.store, wanted)
