"""The newest sample of every card, and when it says nothing any more."""

from __future__ import annotations

from gpupool.fleet.latest_samples import USAGE_FRESH_SECONDS, LatestSamples
from gpupool.wire.samples import DeviceSample, UsageOut
from tests.unit.fleet.conftest import ADMIN, AGENT, House, node, real


def test_usage_that_is_too_old_is_unknown_rather_than_wrong(house: House) -> None:
    house.fleet.register_node("iron", node(real(0)), AGENT)
    house.fleet.record_observations(
        "iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(utilization_percent=50))]
    )
    house.time.forward(USAGE_FRESH_SECONDS)
    assert house.fleet.get_device("0", ADMIN).usage.utilization_percent == 50
    house.time.forward(1)
    assert house.fleet.get_device("0", ADMIN).usage.utilization_percent is None


def test_a_health_event_does_not_forget_the_latest_usage(house: House) -> None:
    house.fleet.register_node("iron", node(real(0)), AGENT)
    house.fleet.record_observations(
        "iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(utilization_percent=50))]
    )
    house.fleet.record_observations(
        "iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(), health="warning")]
    )
    assert house.fleet.get_device("0", ADMIN).usage.utilization_percent == 50


def test_how_busy_cards_are_is_listed_without_old_samples_and_unknown_ones() -> None:
    samples = LatestSamples()
    samples.record_samples([DeviceSample(uuid="old", usage=UsageOut(utilization_percent=9))], 0)
    now_ns = (USAGE_FRESH_SECONDS + 1) * 10**9
    new = [
        DeviceSample(uuid="busy", usage=UsageOut(utilization_percent=42)),
        DeviceSample(uuid="silent", usage=UsageOut(power_watts=70)),
    ]
    samples.record_samples(new, now_ns)
    assert samples.list_busy_percent(now_ns) == {"busy": 42}
