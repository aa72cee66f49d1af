"""What is found of a load balancer is judged, and opened connections are told from other packets."""

from __future__ import annotations

import socket
import struct

from gpupool.agent.network.verification.balancers import (
    BalancerFindings,
    find_source,
    judge_balancer,
)
from gpupool.wire.network.promises import ProbedBackend, ProbedBalancer


def make_balancer(count: int, *, is_checked: bool = True) -> ProbedBalancer:
    backends = [ProbedBackend(key=f"n-{n}", address=f"10.0.0.{n}", port=80) for n in range(count)]
    return ProbedBalancer(
        network="a",
        name="api",
        protocol="tcp",
        address="100.126.0.1",
        port=80,
        is_checked=is_checked,
        backends=backends,
    )


def judge(
    balancer: ProbedBalancer, serving: set[str], arrivals: dict[str, int], strange: int = 0
) -> tuple[bool | None, bool | None]:
    found = BalancerFindings(frozenset(serving), arrivals, 32, strange)
    reach, isolation = judge_balancer(balancer, balancer.backends, found)
    assert (reach.name, isolation.name) == ("load-balancer/a/api", "load-balancer-isolation/a/api")
    return reach.kept, isolation.kept


def test_every_job_that_serves_has_to_get_connections() -> None:
    both = {"n-0", "n-1"}
    assert judge(make_balancer(2), both, {"n-0": 20, "n-1": 12}) == (True, True)
    assert judge(make_balancer(2), both, {"n-0": 32, "n-1": 0}) == (False, True)
    # Of 40 jobs, 512 connections leave one out by chance.
    many = {f"n-{n}": 13 for n in range(39)}
    assert judge(make_balancer(40), {*many, "n-39"}, many) == (None, True)


def test_a_job_that_accepts_nothing_may_get_nothing_where_it_is_checked() -> None:
    arrivals = {"n-0": 20, "n-1": 12}
    assert judge(make_balancer(2), {"n-0"}, {"n-0": 32}) == (True, True)
    assert judge(make_balancer(2), {"n-0"}, arrivals) == (False, True)
    assert judge(make_balancer(2, is_checked=False), {"n-0"}, arrivals) == (True, True)
    assert judge(make_balancer(2), set(), {"n-1": 1}) == (False, True)


def test_without_connections_nothing_is_proved() -> None:
    assert judge(make_balancer(2), set(), {}) == (None, None)
    assert judge(make_balancer(2), {"n-0"}, {"n-0": 3}, strange=1) == (True, False)
    assert judge(make_balancer(2), set(), {}, strange=1) == (None, False)


def build_packet(flags: int, protocol: int = socket.IPPROTO_TCP, options: bytes = b"") -> bytes:
    head = bytes([0x40 | (20 + len(options)) // 4, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0])
    head += socket.inet_aton("10.0.0.2") + socket.inet_aton("10.0.0.3") + options
    return head + struct.pack("!HHIIBB", 40_000, 80, 1, 0, 0x50, flags)


def test_the_first_packet_of_a_connection_names_its_source() -> None:
    syn = 0x02
    assert find_source(build_packet(syn), 80) == ("10.0.0.2", 40_000)
    assert find_source(build_packet(syn, options=bytes(8)), 80) == ("10.0.0.2", 40_000)
    assert find_source(build_packet(syn), 81) is None
    assert find_source(build_packet(0x12), 80) is None
    assert find_source(build_packet(syn, socket.IPPROTO_UDP), 80) is None
    assert find_source(build_packet(syn)[:30], 80) is None
    assert find_source(b"", 80) is None
