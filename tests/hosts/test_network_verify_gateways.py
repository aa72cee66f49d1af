"""`network verify` of the limits of gateways on the real OVN, and a proof that it can fail."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

import pytest

from gpupool.agent.network.verification.gateway_limits import check_gateway_limits
from gpupool.wire.network.promises import ProbedGateway, ProbePort
from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS, find_end, network_pool

pytestmark = [
    *OVN_MARKS,
    pytest.mark.skipif(shutil.which("nft") is None, reason="needs the package nftables"),
]
LIMIT = 8_000


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        made.do("network", "create", "a", "--cidr", "10.0.0.0/24")
        made.do("network", "gateway-create", "a")
        words = ("submit", "--network", "a", "--gpu", "0.1", "--name", "x", "--", "sleep", "600")
        made.do(*words)
        made.until_state("x", "running")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


def read_gateway(pool: RealPool) -> dict[str, Any]:
    shown: dict[str, Any] = pool.json("network", "show", "a")
    return shown


def test_a_limit_of_a_gateway_is_verified_in_both_directions(pool: RealPool) -> None:
    pool.do("network", "limit-set", "a", "--gateway", "--in", "8M", "--out", "8M")

    def list_states() -> list[str]:
        (state,) = pool.json("network", "limit-list", "a")["states"]
        return [state["inward"]["state"], state["outward"]["state"]]

    pool.until(lambda: list_states() == ["set", "set"], "limits in force")

    def is_verified() -> bool:
        found = pool.json("network", "verify", "a")
        checks = {one["name"]: one["kept"] for one in found["checks"]}
        kept = [checks[f"gateway-limit/{way}/a"] for way in ("in", "out")]
        # A machine that is too busy to send as much proves no limit, and breaks none.
        assert False not in kept, found
        return kept == [True, True]

    pool.until(is_verified, "a measurement of both directions")
    assert list_states() == ["verified", "verified"]
    (limit,) = pool.json("network", "limit-list", "a")["limits"]
    pool.do("network", "limit-delete", "a", limit["id"])
    pool.until(lambda: pool.json("network", "limit-list", "a")["states"] == [], "no limit")


def test_a_gateway_without_the_limit_that_it_should_have_is_found(pool: RealPool) -> None:
    shown = read_gateway(pool)
    (port,) = shown["ports"]
    end = find_end(pool, "a", "x")
    address = shown["gateway"]["address"]
    job = ProbePort(
        key="x",
        network="a",
        name="x",
        address=str(end.address),
        prefix=24,
        gateway="10.0.0.1",
        mac=port["mac"],
        mtu=1442,
        domain="a",
    )
    gateway = ProbedGateway(
        key="a",
        network="a",
        address=address,
        next_hop=str(IPv4Network(f"{address}/16", strict=False)[1]),
        in_kbit=LIMIT,
        out_kbit=LIMIT,
    )

    def is_found() -> bool:
        found = list(check_gateway_limits([gateway], [job], {"x": end.namespace}))
        assert [measurement for _, measurement in found] == [None, None]
        return [check.kept for check, _ in found] == [False, False]

    pool.until(is_found, "broken limits")
