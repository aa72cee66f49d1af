"""Which receivers the pool connects to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpupool.base.errors import BadOption, ForbiddenReceiver
from gpupool.notifications.hosts import is_allowed_address, parse_url, resolve_receiver
from gpupool.wire.notifications import AllowedHost

PUBLIC = AllowedHost(host="hooks.example")
INSIDE = AllowedHost(host="gateway.bank", private=True, plain=True)


def resolve(url: str, *addresses: str) -> tuple[str, int]:
    def lookup(_host: str, _port: int) -> Sequence[str]:
        return addresses

    found = resolve_receiver(url, [PUBLIC, INSIDE], lookup)
    return found.address, found.port


def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    assert resolve("https://hooks.example/x", "10.0.0.1", "93.184.216.34") == (
        "93.184.216.34",
        443,
    )
    assert resolve("http://gateway.bank:8080/x", "10.0.0.1") == ("10.0.0.1", 8080)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://other.example/x", "93.184.216.34"),
        ("http://hooks.example/x", "93.184.216.34"),
        ("https://hooks.example/x", "127.0.0.1"),
        ("https://hooks.example/x", "192.168.1.1"),
        ("https://hooks.example/x", "::ffff:10.0.0.1"),
        ("https://hooks.example/x", "fd00::1"),
        ("https://hooks.example.evil.com/x", "93.184.216.34"),
        ("http://gateway.bank/x", "169.254.169.254"),
        ("http://gateway.bank/x", "fe80::1%eth0"),
        ("http://gateway.bank/x", "::ffff:169.254.169.254"),
        ("http://gateway.bank/x", "0.0.0.0"),
        # IPv4 addresses behind NAT64, 6to4 and in the form that came before the mapped one.
        ("http://gateway.bank/x", "64:ff9b::169.254.169.254"),
        ("https://hooks.example/x", "64:ff9b::10.0.0.1"),
        ("https://hooks.example/x", "64:ff9b:1::10.0.0.1"),
        ("https://hooks.example/x", "2002:a00:1::1"),
        ("http://gateway.bank/x", "2002:a9fe:a9fe::1"),
        ("https://hooks.example/x", "::10.0.0.1"),
        ("https://hooks.example/x", "fec0::1"),
    ],
)
def test_the_inside_is_not_reached(url: str, address: str) -> None:
    with pytest.raises(ForbiddenReceiver):
        resolve(url, address)


def test_private_addresses_are_for_hosts_that_an_admin_says() -> None:
    assert is_allowed_address("10.1.2.3", is_private=True)
    assert not is_allowed_address("10.1.2.3", is_private=False)
    assert is_allowed_address("8.8.8.8", is_private=False)
    assert is_allowed_address("64:ff9b::8.8.8.8", is_private=False)
    assert is_allowed_address("::1", is_private=True)


@pytest.mark.parametrize(
    "text",
    [
        "hooks.example/x",
        "ftp://hooks.example/x",
        "https:///x",
        "https://ada:secret@hooks.example/x",
        "https://hooks.example:99999/x",
        "https://hooks.example/x#part",
        "https://hooks.example/a b",
        "https://hooks.example/a\r\nHost: inside",
        "https://hook§.example/x",
        "https://[::1/x",
    ],
)
def test_a_text_that_is_no_url_of_a_receiver_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_url(text)
