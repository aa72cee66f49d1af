"""What `--listen` may be, and that nothing is open to the network in the clear unless that was
said."""

import logging
from pathlib import Path

import pytest

from gpupool.base.errors import BadOption
from gpupool.server.http.listeners import TcpListener, bind_listeners, parse_listen


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8470", "127.0.0.1", 8470),
        ("[::1]:8470", "::1", 8470),
        (":8470", "", 8470),
        ("localhost:0", "localhost", 0),
        (" box.example:1 ", "box.example", 1),
    ],
)
def test_a_host_and_port_are_understood(text: str, host: str, port: int) -> None:
    assert parse_listen(text) == TcpListener(host, port)


@pytest.mark.parametrize(
    "text",
    ["", "8470", "localhost", "localhost:", "localhost:http", "a:70000", "::1:8470", "a:-1", "a:٣"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="is not HOST:PORT"):
        parse_listen(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_the_network_needs_tls(host: str) -> None:
    with pytest.raises(BadOption, match="needs TLS") as refusal:
        bind_listeners([TcpListener(host, 0)])
    assert "--insecure-http" in refusal.value.hint


def test_plain_http_to_the_network_is_possible_and_said_aloud(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        bound = bind_listeners([TcpListener("0.0.0.0", 0, insecure_http=True)])
    for one in bound:
        one.remove()
    assert "INSECURE: plain HTTP on 0.0.0.0:0" in caplog.text


def test_loopback_needs_nothing_said(caplog: pytest.LogCaptureFixture) -> None:
    bound = bind_listeners([TcpListener("localhost", 0)])
    assert bound
    for one in bound:
        one.remove()
    assert caplog.text == ""


def test_a_certificate_and_its_key_go_together(certificate: tuple[Path, Path]) -> None:
    with pytest.raises(BadOption, match="go together"):
        bind_listeners([TcpListener("127.0.0.1", 0, cert=certificate[0])])


def test_a_key_of_another_certificate_is_refused(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    for wrong in (certificate[0], tmp_path / "nowhere.pem"):
        with pytest.raises(BadOption, match="cannot be used"):
            bind_listeners([TcpListener("127.0.0.1", 0, certificate[0], wrong)])


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.77", "x" * 300])
def test_an_address_that_is_not_this_machines_is_refused(host: str) -> None:
    with pytest.raises(BadOption):
        bind_listeners([TcpListener(host, 0, insecure_http=True)])


def test_closing_twice_does_nothing_more() -> None:
    (one,) = bind_listeners([TcpListener("127.0.0.1", 0)])
    one.remove()
    one.remove()
