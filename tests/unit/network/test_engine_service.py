"""The engine: what is asked of its agent, and what its reports change."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NetworkingUnavailable, StillInUse
from gpupool.network.engine_service import NetworkEngineService
from tests.unit.network.conftest import NetworkHouse


def read_wish(house: NetworkHouse, after: int = 0) -> str | None:
    page = house.allocations.agents.read_work("node-1", after)
    return None if page.network is None else page.network.want


def test_enable_asks_the_agent_once_and_its_report_makes_it_ready(house: NetworkHouse) -> None:
    engine = house.allocations.network_engine
    assert engine.get_state().state == "off"
    assert read_wish(house) is None
    assert engine.enable().state == "starting"
    page = house.allocations.agents.read_work("node-1", 0)
    assert read_wish(house) == "run"
    assert read_wish(house, page.cursor) is None
    assert engine.read_northbound() is None
    house.tell_engine("ready", northbound="unix:/run/x")
    assert engine.enable().state == "ready"
    assert engine.read_northbound() == "unix:/run/x"


def test_a_check_is_well_where_networks_are_off_or_ready(house: NetworkHouse) -> None:
    engine = house.allocations.network_engine
    assert (engine.check().state, engine.check().text) == ("ok", "not enabled")
    engine.enable()
    assert engine.check().state == "warn"
    house.tell_engine("failed", reason="this machine lacks ovn-northd; apt-get install ovn-central")
    assert engine.check().state == "fail"
    assert "apt-get install ovn-central" in engine.check().text
    house.tell_engine("ready", northbound="unix:/run/x")
    assert engine.check().text == "ready; 0 networks, 0 jobs in them"


def test_a_failed_engine_says_why_and_can_be_tried_again(house: NetworkHouse) -> None:
    engine = house.allocations.network_engine
    engine.enable()
    house.tell_engine("failed", reason="no package")
    assert engine.get_state().reason == "no package"
    assert engine.enable().state == "starting"


def test_disable_waits_for_the_agent_and_refuses_while_jobs_are_in_networks(
    house: NetworkHouse,
) -> None:
    engine = house.allocations.network_engine
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    house.submit(name="one", network="a")
    with pytest.raises(StillInUse):
        engine.disable()
    house.finish("one")
    assert engine.disable().state == "stopping"
    assert read_wish(house) == "stop"
    house.tell_engine("ready", northbound="unix:/late")
    assert engine.get_state().state == "stopping"
    house.tell_engine("stopped")
    assert engine.get_state().state == "off"
    assert engine.get_state().networks == 1


def test_a_pool_that_is_not_roots_is_refused(house: NetworkHouse) -> None:
    of_user = NetworkEngineService(house.store, 1000, lambda _connection: ["node-1"])
    with pytest.raises(NetworkingUnavailable, match="runs as uid 1000"):
        of_user.enable()


def test_a_pool_without_a_machine_is_refused(house: NetworkHouse) -> None:
    empty = NetworkEngineService(house.store, 0, lambda _connection: [])
    with pytest.raises(NetworkingUnavailable, match="no machine yet"):
        empty.enable()


def test_a_silent_centre_is_said_with_what_goes_on(house: NetworkHouse) -> None:
    house.enable()
    silent = NetworkEngineService(house.store, 0, lambda _connection: ["node-1"], lambda _: True)
    state = silent.get_state()
    assert state.state == "failed"
    assert "traffic goes on, changes wait" in state.reason
    assert [one.state for one in state.machines] == ["silent"]
    # What does not answer is not waited for.
    assert silent.disable().state == "off"


def test_a_centre_that_was_silent_at_the_end_is_stopped_when_it_is_back(
    house: NetworkHouse,
) -> None:
    house.enable()
    carried = house.allocations.agents.read_work("node-1", 0).cursor
    silent = NetworkEngineService(house.store, 0, lambda _connection: ["node-1"], lambda _: True)
    assert silent.disable().state == "off"
    assert read_wish(house, carried) == "stop"
    house.tell_engine("stopped")
    assert read_wish(house) is None
    assert house.allocations.network_engine.get_state().state == "off"
