"""The files of a resolver, its account and its command line."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from gpupool.agent.network.naming.resolver_files import (
    ResolverFiles,
    choose_account,
    format_names,
    format_servers,
    make_resolver,
)
from gpupool.network.resolver_rows import ResolverConfig

ONE = IPv4Address("10.0.0.2")
TWO = IPv4Address("10.0.0.3")
LISTENS = "--listen-address=100.126.255.250"
CONFIG = ResolverConfig(
    "port",
    5,
    1442,
    "lab.gpupool.internal",
    {"web": (ONE, TWO), "a-0.a": (ONE,)},
    is_forwarding=False,
)


def test_each_address_has_the_long_name_first_and_then_the_short_one() -> None:
    assert format_names(CONFIG).splitlines() == [
        "10.0.0.2 a-0.a.lab.gpupool.internal a-0.a",
        "10.0.0.2 web.lab.gpupool.internal web",
        "10.0.0.3 web.lab.gpupool.internal web",
    ]


def test_other_names_are_asked_for_outside_with_a_gateway_alone() -> None:
    servers = ["192.0.2.1", "192.0.2.2"]
    assert format_servers(CONFIG, servers) == "server=/#/\n"
    forwarding = replace(CONFIG, is_forwarding=True)
    assert format_servers(forwarding, servers) == "server=192.0.2.1\nserver=192.0.2.2\n"
    assert format_servers(forwarding, []) == "server=/#/\n"


def test_each_network_has_an_account_of_its_own_where_the_machine_has_them() -> None:
    whole = "         0          0 4294967295\n"
    accounts = {choose_account(number, whole) for number in range(1, 2000)}
    assert len(accounts) == 1999
    assert min(accounts) > 1_879_048_192
    assert choose_account(1, "0 100000 65536\n") == 65534


def test_large_answers_fit_a_packet_of_the_network(tmp_path: Path) -> None:
    for mtu, size in ((1442, 1232), (9000, 1232), (576, 548)):
        made = make_resolver(
            "v-1", ResolverFiles(tmp_path), 70000, Path("/run/netns/x"), replace(CONFIG, mtu=mtu)
        )
        assert f"--edns-packet-max={size}" in made.arguments
        assert (made.uid, made.gid) == (70000, 70000)
        assert "--conf-file=/dev/null" in made.arguments
        assert [one for one in made.arguments if "listen" in one] == [LISTENS]


def test_a_resolver_of_a_network_with_ipv6_listens_on_both_addresses(tmp_path: Path) -> None:
    config = replace(CONFIG, has_ipv6=True, addresses={"web": (ONE, IPv6Address("fd12::2"))})
    made = make_resolver("v-1", ResolverFiles(tmp_path), 70000, Path("/run/netns/x"), config)
    listening = [one for one in made.arguments if "listen" in one]
    assert listening == [LISTENS, "--listen-address=fd67:7075:706f:ffff::2"]
    assert format_names(config).splitlines()[1] == "fd12::2 web.lab.gpupool.internal web"
