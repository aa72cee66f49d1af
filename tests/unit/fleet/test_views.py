"""Rows of nodes and cards as the wire shows them."""

from __future__ import annotations

from gpupool.wire.samples import DeviceSample, ProcessOut, UsageOut
from tests.unit.fleet.conftest import ADMIN, AGENT, GIB, USER, House, card, node, real


def test_only_admins_see_who_runs_what_outside_the_pool(house: House) -> None:
    house.fleet.register_node("iron", node(real(0)), AGENT)
    process = ProcessOut(pid=77, user="bob", name="secret.py", memory_bytes=GIB, started_ns=5)
    house.fleet.record_observations(
        "iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(), unmanaged=[process])]
    )
    assert house.fleet.get_device("0", ADMIN).unmanaged == [process]
    (shown,) = house.fleet.get_device("0", USER).unmanaged
    assert (shown.user, shown.memory_bytes, shown.started_ns, "secret" in shown.name) == (
        None,
        GIB,
        None,
        False,
    )
    assert shown.pid != 77


def test_the_largest_placeable_share_is_what_is_left_of_both(house: House) -> None:
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-0", milli=300, size=GIB + 5)
    house.sit("GPU-1", milli=1000, size=GIB)
    shown = house.fleet.get_device("0", ADMIN)
    assert (shown.largest_milli, shown.largest_bytes) == (700, 47 * GIB - (1 << 20))
    full = house.fleet.get_device("1", ADMIN)
    assert (full.largest_milli, full.largest_bytes, full.free_bytes) == (0, 0, 47 * GIB)
