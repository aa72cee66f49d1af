"""What the limits page says of each card's part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.device_limits import build_device_limit
from gpupool.mechanisms.regions import DeviceLimit
from gpupool.probes.simulated import parse_sim

CARDS = parse_sim("2xL40S")[0].devices
GIB = 1 << 30


def build(milli: int, others: tuple[DeviceLimit, ...], state: Path) -> DeviceLimit:
    grant = GrantedDevice(CARDS[0], milli, GIB, 256 << 20, 2 << 20)
    view = AllocationView("pool", "al-1", 1, "job", "team", "burst", (grant,), CARDS, priority=7)
    return build_device_limit(grant, view, others, state)


def neighbour(offset: int, milli: int, card: int = 0) -> DeviceLimit:
    uuid = CARDS[card].uuid
    return DeviceLimit(uuid, GIB, GIB, gpu_milli=milli, duty_offset_milli=offset)


@pytest.mark.parametrize(
    ("milli", "others", "offset"),
    [
        (300, [(0, 300), (500, 500)], 0),
        (200, [(0, 300), (500, 500)], 300),
        (200, [(500, 500), (0, 300)], 300),
        (0, [(0, 990)], 990),
    ],
)
def test_part_begins_in_the_first_gap_that_it_fits_into(
    tmp_path: Path, milli: int, others: list[tuple[int, int]], offset: int
) -> None:
    found = build(milli, tuple(neighbour(*one) for one in others), tmp_path)
    assert found.duty_offset_milli == offset


def test_neighbour_on_another_card_takes_no_part(tmp_path: Path) -> None:
    assert build(400, (neighbour(0, 1000, card=1),), tmp_path).duty_offset_milli == 0


def test_share_without_a_promise_weighs_a_tenth_of_a_card(tmp_path: Path) -> None:
    assert (build(0, (), tmp_path).weight, build(300, (), tmp_path).weight) == (100, 300)
    assert build(0, (), tmp_path).priority == 7


def test_costs_that_the_node_did_not_measure_come_from_calibration(tmp_path: Path) -> None:
    grant = replace(GrantedDevice(CARDS[0], 300, GIB), granule_bytes=4 << 20)
    view = AllocationView("pool", "al-1", 1, "job", "team", "fixed", (grant,), CARDS)
    found = build_device_limit(grant, view, (), tmp_path)
    assert found.context_bytes > 0
    assert found.granule_bytes == 4 << 20
