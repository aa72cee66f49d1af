"""Which networks have a resolver on this machine, and until when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpupool.agent.network.naming.resolvers import (
    LocalNetwork,
    is_over,
    list_outside,
    read_local_networks,
)
from gpupool.network.ovn.northbound_database import NETWORK

OPTIONS = {
    "gpupool-number": "1",
    "gpupool-mtu": "1442",
    "gpupool-domain": "a.gpupool.internal",
    "gpupool-name:job": "10.0.0.2",
}


def make_row(kind: str, network: str | None = "v-1", chassis: str | None = None) -> Any:
    return SimpleNamespace(
        type=kind,
        logical_port="port",
        options=OPTIONS if kind == "localport" else {},
        external_ids={} if network is None else {NETWORK: network},
        chassis=[] if chassis is None else [SimpleNamespace(name=chassis)],
    )


def read(*rows: Any) -> dict[str, LocalNetwork]:
    return read_local_networks(dict(enumerate(rows)))


def test_a_job_here_needs_the_resolver_of_its_network() -> None:
    (network,) = read(make_row("localport"), make_row("", chassis="gpupool")).values()
    assert network.has_job
    assert network.config is not None
    assert set(network.config.addresses) == {"job"}


def test_a_job_of_another_machine_or_network_and_a_router_need_none_here() -> None:
    found = read(
        make_row("localport"),
        make_row("", chassis="other"),
        make_row("", chassis=None),
        make_row("patch"),
        make_row("", network=None),
        make_row("", network="v-2", chassis="gpupool"),
    )
    assert not found["v-1"].has_job
    assert found["v-2"].config is None


def test_ports_here_of_networks_with_ipv6_follow_the_gateway() -> None:
    plain = (make_row("localport"), make_row("", chassis="gpupool"))
    assert list(list_outside(read(*plain).values())) == []
    resolver = make_row("localport")
    for more, wanted in (({}, False), ({"gpupool-outside6": "true"}, True)):
        resolver.options = {**OPTIONS, "gpupool-ipv6": "true", **more}
        rows = (resolver, make_row("", chassis="gpupool"), make_row("", chassis="other"))
        assert list(list_outside(read(*rows).values())) == [("port", wanted)]


def test_a_resolver_outlives_the_last_job_for_a_minute_and_its_network_for_seconds() -> None:
    used = read(make_row("localport"), make_row("", chassis="gpupool"))["v-1"]
    idle = read(make_row("localport"))["v-1"]
    assert not is_over(used, 600)
    assert not is_over(idle, 59)
    assert is_over(idle, 61)
    assert not is_over(LocalNetwork(), 1)
    assert is_over(LocalNetwork(), 3)
