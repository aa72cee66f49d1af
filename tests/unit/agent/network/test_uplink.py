"""The prefix of the uplink, and the name servers that jobs reach over it."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from gpupool.agent.network import uplink
from gpupool.agent.network.uplink import check_prefix, choose_prefix, read_name_servers
from gpupool.base.errors import NetworkingUnavailable


def test_a_prefix_that_the_machine_routes_is_passed_over() -> None:
    assert choose_prefix([IPv4Network("10.0.0.0/8")]) == IPv4Network("198.18.0.0/16")
    taken = [IPv4Network("198.18.5.0/24")]
    assert choose_prefix(taken) == IPv4Network("198.19.0.0/16")
    taken.append(IPv4Network("198.18.0.0/15"))
    assert choose_prefix(taken) == IPv4Network("100.127.0.0/16")


def test_a_machine_without_a_free_prefix_is_told_so() -> None:
    with pytest.raises(NetworkingUnavailable, match="none is free for gateways"):
        choose_prefix([IPv4Network("198.18.0.0/15"), IPv4Network("100.64.0.0/10")])


def test_the_prefix_of_the_other_machine_of_a_pair_is_taken_or_refused() -> None:
    wanted = IPv4Network("198.18.0.0/16")
    assert check_prefix(wanted, [IPv4Network("10.0.0.0/8")]) == wanted
    with pytest.raises(NetworkingUnavailable, match=r"this one a route to 198\.18\.5\.0/24"):
        check_prefix(wanted, [IPv4Network("10.0.0.0/8"), IPv4Network("198.18.5.0/24")])


def test_name_servers_of_ipv6_count_where_the_gateway_carries_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "resolv.conf"
    servers = ("127.0.0.53", "::1", "fe80::1%eth0", "2001:db8::53", "192.0.2.53", "nonsense")
    file.write_text("".join(f"nameserver {server}\n" for server in servers))
    monkeypatch.setattr(uplink, "NAME_SERVER_FILES", (file,))
    assert read_name_servers() == ["192.0.2.53"]
    assert read_name_servers(has_ipv6=True) == ["2001:db8::53", "192.0.2.53"]
