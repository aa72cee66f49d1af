"""What the fleet promises about cards, their history and their nodes."""

from __future__ import annotations

import itertools

import pytest

from gpupool.base.errors import (
    NotFound,
    WriteConflict,
)
from gpupool.fleet.agent_liveness import SILENT_AFTER_SECONDS
from gpupool.model.device import DeviceState, is_device_transition
from gpupool.wire.samples import DeviceSample, UsageOut
from tests.unit.fleet.conftest import ADMIN, AGENT, House, card, node, real


def test_registering_the_same_again_changes_nothing_but_the_time_it_was_seen(house: House) -> None:
    body = node(card(0), card(1), labels={"rack": "7"}, facts={"cpu_count": 8})
    first = house.fleet.register_node("sim", body, AGENT)
    before = (house.rows(), house.events(), house.generation())
    house.time.forward(5)
    second = house.fleet.register_node("sim", body, AGENT)
    assert (house.rows(), house.events(), house.generation()) == before
    assert second.last_seen_ns > first.last_seen_ns
    assert second.generation == first.generation


def test_a_card_that_vanished_is_lost_without_capacity_and_returns_as_it_was(house: House) -> None:
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    house.fleet.release_devices(["sim:1"], False, ADMIN)
    house.time.forward(10)
    house.fleet.register_node("sim", node(card(0)), AGENT)
    assert house.rows()["GPU-1"].state == "lost"
    assert house.fleet.get_node("sim").devices == 1
    house.time.forward(10)
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    assert house.rows()["GPU-1"].state == "observed"
    assert house.spans("GPU-1") == [("unmanaged", 0, 10), ("unmanaged", 20, None)]
    assert house.spans("GPU-0") == [("pooled", 0, None)]
    assert [e.subject for e in house.events("device.lost")] == ["sim:1"]
    assert "state_before_lost" not in house.fleet.get_device("sim:1", ADMIN).facts


def test_samples_of_another_agents_cards_are_ignored(house: House) -> None:
    house.fleet.register_node("one", node(card(0)), AGENT)
    house.fleet.register_node("two", node(card(1)), AGENT)
    house.fleet.record_observations(
        "two", [DeviceSample(uuid="GPU-0", usage=UsageOut(utilization_percent=99), health="failed")]
    )
    shown = house.fleet.get_device("GPU-0", ADMIN)
    assert (shown.health, shown.usage.utilization_percent) == ("ok", None)


def test_a_silent_node_is_not_ready_and_its_next_word_makes_it_ready_again(house: House) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.fleet.mark_ready("sim")
    house.time.forward(SILENT_AFTER_SECONDS - 1)
    assert house.fleet.check_silence() == pytest.approx(1)
    assert house.fleet.get_node("sim").ready
    house.time.forward(1)
    assert house.fleet.check_silence() == pytest.approx(SILENT_AFTER_SECONDS)
    house.fleet.check_silence()
    assert [e.kind for e in house.events() if e.kind.startswith("node.")][-1] == "node.silent"
    assert not house.fleet.get_node("sim").ready
    house.fleet.record_heartbeat("sim")
    assert house.fleet.get_node("sim").ready
    assert len(house.events("node.silent")) == 1


def test_after_a_restart_no_node_is_ready_and_one_that_stays_away_is_told_silent(
    house: House,
) -> None:
    house.fleet.register_node("sim", node(card(0), agent="host"), AGENT)
    house.fleet.mark_ready("host")
    restarted = House(house.store, house.time)
    restarted.fleet.await_agents()
    assert not restarted.fleet.get_node("sim").ready
    house.time.forward(SILENT_AFTER_SECONDS)
    restarted.fleet.check_silence()
    assert [e.subject for e in house.events("node.silent")] == ["sim"]


def test_one_agent_makes_all_its_nodes_ready_under_any_of_their_names(house: House) -> None:
    for index, name in enumerate(["sim-0", "sim-1"]):
        house.fleet.register_node(name, node(card(index), agent="host"), AGENT)
    house.fleet.mark_ready("sim-1")
    assert [one.ready for one in house.fleet.list_nodes().items] == [True, True]
    with pytest.raises(NotFound, match="nobody"):
        house.fleet.mark_ready("nobody")


def test_a_node_stays_with_the_agent_that_is_heard(house: House) -> None:
    house.fleet.register_node("sim", node(card(0), agent="one"), AGENT)
    with pytest.raises(WriteConflict, match="served by agent one"):
        house.fleet.register_node("sim", node(card(0), agent="two"), AGENT)
    house.time.forward(SILENT_AFTER_SECONDS)
    house.fleet.check_silence()
    house.fleet.register_node("sim", node(card(0), agent="two"), AGENT)


def test_every_step_a_card_takes_is_in_its_lifecycle(house: House) -> None:
    steps = [
        lambda: house.fleet.register_node("sim", node(card(0)), AGENT),
        lambda: house.sit("GPU-0"),
        lambda: house.fleet.release_devices(["0"], True, ADMIN),
        lambda: house.fleet.adopt_devices(["0"], ADMIN),
        lambda: house.fleet.release_devices(["0"], True, ADMIN),
        lambda: house.fleet.register_node("sim", node(), AGENT),
        lambda: house.fleet.register_node("sim", node(card(0)), AGENT),
        lambda: house.leave("GPU-0"),
        lambda: house.fleet.register_node("sim", node(), AGENT),
        lambda: house.fleet.register_node("sim", node(card(0)), AGENT),
        lambda: house.fleet.adopt_devices(["0"], ADMIN),
        lambda: house.fleet.release_devices(["0"], False, ADMIN),
    ]
    path = []
    for step in steps:
        step()
        path.append(DeviceState(house.rows()["GPU-0"].state))
    assert set(path) == set(DeviceState)
    assert [pair for pair in itertools.pairwise(path) if not is_device_transition(*pair)] == []


def test_count_hardware_counts_nodes_and_present_cards(house: House) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.fleet.register_node("iron", node(real(1)), AGENT)
    assert house.fleet.count_hardware() == (2, 2)
