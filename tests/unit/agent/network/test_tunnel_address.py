"""Which address of a machine its tunnels have."""

from __future__ import annotations

import pytest

from gpupool.agent.network.tunnel_address import (
    check_tunnel_address,
    find_address_towards,
    read_tunnel_address,
)
from gpupool.base.errors import BadOption


def test_the_environment_names_an_address_or_none() -> None:
    assert read_tunnel_address({}) == ""
    assert read_tunnel_address({"GPUPOOL_TUNNEL_ADDRESS": "192.0.2.7"}) == "192.0.2.7"


@pytest.mark.parametrize("text", ["node-1", "192.0.2.7/24", "::1", "192.0.2"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="is no IPv4 address"):
        check_tunnel_address(text, "--tunnel-address")


@pytest.mark.parametrize("text", ["127.0.0.1", "0.0.0.0", "224.0.0.1"])
def test_what_no_other_machine_reaches_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="no other machine reaches"):
        check_tunnel_address(text, "--tunnel-address")


def test_a_server_on_this_machine_alone_names_no_address() -> None:
    assert find_address_towards(None) == ""
    assert find_address_towards("http://127.0.0.1:8470") == ""
