"""The prefix of the uplink, and the name servers that jobs reach over it."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from gpupool.agent.network.uplink import choose_prefix
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
