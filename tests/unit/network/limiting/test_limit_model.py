"""The narrowest limit holds for each direction, and never more than an admin allows."""

from __future__ import annotations

import pytest

from gpupool.network.limiting.model import Bandwidth, BandwidthLimit, NetworkLimits

LIMITS = (
    BandwidthLimit("port", "", Bandwidth(1000, 2000)),
    BandwidthLimit("port", "train", Bandwidth(3000, None)),
    BandwidthLimit("port", "train-1", Bandwidth(None, 4000)),
    BandwidthLimit("gateway", "", Bandwidth(7000, None)),
)


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("other", Bandwidth(1000, 2000)),
        ("train", Bandwidth(3000, 2000)),
        ("train-0.train", Bandwidth(3000, 2000)),
        ("train-1.train", Bandwidth(3000, 4000)),
        ("train-1.other", Bandwidth(1000, 4000)),
    ],
)
def test_the_narrowest_limit_holds_for_each_direction(name: str, bandwidth: Bandwidth) -> None:
    assert NetworkLimits(LIMITS).find_port(name) == bandwidth


def test_a_cap_holds_with_and_without_limits() -> None:
    capped = NetworkLimits(LIMITS, Bandwidth(2500, None), Bandwidth(None, 5000))
    assert capped.find_port("other") == Bandwidth(1000, 2000)
    assert capped.find_port("train") == Bandwidth(2500, 2000)
    assert capped.find_gateway() == Bandwidth(7000, 5000)
    assert NetworkLimits((), Bandwidth(2500, None)).find_port("any") == Bandwidth(2500, None)
    assert not NetworkLimits().find_port("any")
