"""Cards and their lifecycle."""

from dataclasses import FrozenInstanceError

import pytest

from gpupool.model.device import (
    TRANSITIONS,
    Device,
    DeviceHealth,
    DeviceProcess,
    DeviceState,
    DeviceUsage,
    is_device_transition,
)


def test_every_state_has_its_row_and_leads_only_to_states() -> None:
    assert set(TRANSITIONS) == set(DeviceState)
    assert all(state not in successors for state, successors in TRANSITIONS.items())


def test_every_state_can_be_reached_from_every_other() -> None:
    for start in DeviceState:
        reached, frontier = {start}, [start]
        while frontier:
            for following in TRANSITIONS[frontier.pop()] - reached:
                reached.add(following)
                frontier.append(following)
        assert reached == set(DeviceState)


@pytest.mark.parametrize(
    ("state", "wanted", "allowed"),
    [
        (DeviceState.OBSERVED, DeviceState.ADOPTED, True),
        (DeviceState.OBSERVED, DeviceState.DRAINING, False),
        (DeviceState.ADOPTED, DeviceState.DRAINING, True),
        (DeviceState.DRAINING, DeviceState.OBSERVED, True),
        (DeviceState.LOST, DeviceState.ADOPTED, True),
        (DeviceState.ADOPTED, DeviceState.ADOPTED, True),
    ],
)
def test_the_lifecycle_says_what_may_follow(
    state: DeviceState, wanted: DeviceState, allowed: bool
) -> None:
    assert is_device_transition(state, wanted) is allowed


def test_what_was_not_read_is_unknown_and_never_zero() -> None:
    assert DeviceUsage() == DeviceUsage(None, None, None, None, None)
    assert (
        DeviceProcess(7).uid,
        DeviceProcess(7).memory_bytes,
        DeviceProcess(7).started_at_ns,
    ) == (None, None, None)
    card = Device("GPU-1", 0, "nvidia", "NVIDIA H200", "H200", 143771 << 20)
    assert card.health is DeviceHealth.UNKNOWN
    assert (card.numa_node, card.ecc_enabled, card.partitioned) == (None, None, None)


def test_a_card_is_a_fact_and_can_be_a_key() -> None:
    card = Device("GPU-1", 0, "nvidia", "NVIDIA H200", "H200", 143771 << 20, labels={"rack": "b"})
    assert {card: 1}[card] == 1
    with pytest.raises(FrozenInstanceError):
        card.memory_bytes = 0  # type: ignore[misc]
