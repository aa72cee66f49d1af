"""Places of an OVN's databases: what is taken, and what is refused with the right form."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadAddress
from gpupool.network.external.remotes import find_southbound, parse_remotes


@pytest.mark.parametrize(
    "text",
    [
        "tcp:192.0.2.7:6641",
        "ssl:192.0.2.7:6641,ssl:192.0.2.8:6641,ssl:192.0.2.9:6641",
        "ssl:[2001:db8::7]:6641",
    ],
)
def test_servers_are_split_as_they_are_written(text: str) -> None:
    assert ",".join(parse_remotes(text, "northbound")) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "192.0.2.7:6641",
        "unix:/run/ovn/ovnnb_db.sock",
        "tcp:192.0.2.7",
        "tcp:192.0.2.700:6641",
        "tcp:ovn.example:6641",
        "tcp:0.0.0.0:6641",
        "tcp:192.0.2.7:0",
        "tcp:192.0.2.7:65536",
        "tcp:192.0.2.7:6641,",
        "tcp:192.0.2.7:6641 --db=x",
        "tcp:192.0.2.7:6641,ssl:192.0.2.8:6641",
        ",".join(["tcp:192.0.2.7:6641"] * 10),
    ],
)
def test_what_is_no_place_of_a_database_is_refused(text: str) -> None:
    with pytest.raises(BadAddress, match="northbound"):
        parse_remotes(text, "northbound")


def test_the_southbound_database_has_the_next_port_of_each_server() -> None:
    servers = ("ssl:192.0.2.7:6641", "ssl:[2001:db8::7]:16641")
    assert find_southbound(servers) == ("ssl:192.0.2.7:6642", "ssl:[2001:db8::7]:16642")
