"""A gateway's limit is broken by more than its meter's burst allows, and shown by a steady rate."""

from __future__ import annotations

import pytest

from gpupool.agent.network.verification.gateway_limits import choose_job, judge_gateway
from gpupool.agent.network.verification.traffic import TrafficRate
from gpupool.wire.network.promises import ProbedGateway, ProbePort

LIMIT = 20_000
#: What a limit of 20 Mbit/s and a burst of a second let through in 3.5 s.
MOST_BYTES = LIMIT * 125 * 9 // 2
GATEWAY = ProbedGateway(
    key="v-lab", network="lab", address="198.18.0.2", next_hop="198.18.0.1", in_kbit=LIMIT
)


def make_job(name: str, network: str = "lab", **limits: int) -> ProbePort:
    return ProbePort(
        key=name,
        network=network,
        name=name,
        address="10.0.0.2",
        prefix=24,
        gateway="10.0.0.1",
        mac="0a:00:00:00:00:01",
        mtu=1442,
        domain="lab",
        **limits,
    )


@pytest.mark.parametrize(
    ("received_kbit", "received_bytes", "kept"),
    [
        (LIMIT, MOST_BYTES, True),
        (LIMIT * 1.05, MOST_BYTES, True),
        (LIMIT * 0.8, MOST_BYTES // 2, None),
        # On the burst still, and within what it allows.
        (LIMIT * 1.3, MOST_BYTES, None),
        (LIMIT * 2, MOST_BYTES * 1.4, False),
        (LIMIT, MOST_BYTES * 1.1, False),
    ],
)
def test_more_than_the_burst_allows_breaks_a_limit(
    received_kbit: float, received_bytes: float, kept: bool | None
) -> None:
    rate = TrafficRate(int(received_kbit), 2 * LIMIT, int(received_bytes))
    check, found = judge_gateway("gateway-limit/in/lab", "v-lab", "in", LIMIT, rate)
    assert check.kept is kept
    assert (found is not None) == (kept is True)


def test_a_job_that_may_take_less_than_is_sent_measures_nothing() -> None:
    narrow = make_job("narrow", in_kbit=LIMIT + 1000)
    other = make_job("other", network="other")
    assert choose_job(GATEWAY, "in", LIMIT, [narrow, other]) is None
    wide = make_job("wide", in_kbit=2 * LIMIT, out_kbit=1000)
    assert choose_job(GATEWAY, "in", LIMIT, [narrow, other, wide]) == wide
    assert choose_job(GATEWAY, "out", LIMIT, [narrow, wide]) == narrow
