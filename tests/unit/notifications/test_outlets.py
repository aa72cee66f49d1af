"""One message over HTTP and by mail, with real servers on loopback."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from gpupool.notifications.formats import Format, HookRequest, Message
from gpupool.notifications.outlets import DeliveryFailure, build_mail, post_request, send_mail
from gpupool.wire.notifications import AllowedHost, MailServerIn
from tests.support.message_receivers import hook_receiver, mail_receiver

INSIDE = [AllowedHost(host="127.0.0.1", private=True, plain=True)]
MESSAGE = Message("d-1", "作业 train\r\nBcc: all@example.com", ["作业 train", "second"], [])


def post(url: str, kind: Format = Format.WEBHOOK) -> None:
    post_request(kind, HookRequest(url, b'{"a":1}', {"Gpupool-Delivery": "d-1"}), INSIDE)


def test_a_request_arrives_with_its_headers() -> None:
    with hook_receiver() as receiver:
        post(f"{receiver.url}?key=1")
        path, headers, body = receiver.requests[0]
    assert (path, body) == ("/hook?key=1", {"a": 1})
    assert headers["Gpupool-Delivery"] == "d-1"
    assert headers["Host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize(
    ("status", "is_final"), [(500, False), (429, False), (404, True), (302, False)]
)
def test_another_status_is_a_failure_and_no_redirect_is_followed(
    status: int, is_final: bool
) -> None:
    with hook_receiver() as receiver:
        receiver.statuses.append(status)
        with pytest.raises(DeliveryFailure, match=f"answered {status}") as caught:
            post(receiver.url)
        assert len(receiver.requests) == 1
    assert caught.value.is_final is is_final


def test_a_receiver_that_refuses_in_its_answer_is_a_failure() -> None:
    with hook_receiver() as receiver:
        receiver.answer = b'{"errcode":93000,"errmsg":"invalid webhook url"}'
        with pytest.raises(DeliveryFailure, match="93000"):
            post(receiver.url, Format.WECOM)


def test_a_port_without_a_server_is_a_failure() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(DeliveryFailure, match="ConnectionRefusedError"):
            post(f"http://127.0.0.1:{bound.getsockname()[1]}/")


def test_a_receiver_that_answers_byte_by_byte_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpupool.notifications.outlets.TIMEOUT_SECONDS", 0.3)
    with slow_receiver() as port, pytest.raises(DeliveryFailure, match="TimeoutError"):
        post(f"http://127.0.0.1:{port}/")


@contextmanager
def slow_receiver() -> Iterator[int]:
    """Run a server that sends a header of 100 bytes, one each 20 ms."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                for _ in range(100):
                    # A request may come in pieces; nothing is the end of the client's side.
                    ready = select.select([connection], [], [], 0.02)[0]
                    if ready and not connection.recv(65_536):
                        return
                    connection.sendall(b"a")
                connection.sendall(b"\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_a_name_that_leads_inside_is_not_connected_to() -> None:
    def lookup(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    with hook_receiver() as receiver:
        request = HookRequest(f"http://hooks.example:{receiver.port}/", b"{}")
        allowed = [AllowedHost(host="hooks.example", plain=True)]
        with pytest.raises(DeliveryFailure, match="GP-2140"):
            post_request(Format.WEBHOOK, request, allowed, lookup)
        assert receiver.requests == []


def test_a_mail_arrives_and_a_name_adds_no_header() -> None:
    with mail_receiver() as receiver:
        server = MailServerIn(
            host="127.0.0.1", port=receiver.port, security="none", sender="pool@example.com"
        )
        send_mail(server, "ada@example.com", MESSAGE)
        mail = receiver.mails[0]
        receiver.refused.add("bob@example.com")
        with pytest.raises(DeliveryFailure, match="550") as caught:
            send_mail(server, "bob@example.com", MESSAGE)
    assert mail["Subject"] == "作业 train  Bcc: all@example.com"
    assert mail["Bcc"] is None
    assert mail.get_content().splitlines() == ["作业 train", "second"]
    assert mail["Message-ID"] == build_mail("a@b", "c@d", MESSAGE)["Message-ID"]
    assert caught.value.is_final


def test_a_server_without_the_encryption_that_was_asked_for_gets_no_mail() -> None:
    with mail_receiver() as receiver:
        server = MailServerIn(host="127.0.0.1", port=receiver.port, sender="pool@example.com")
        with pytest.raises(DeliveryFailure):
            send_mail(server, "ada@example.com", MESSAGE)
        assert receiver.mails == []
    with pytest.raises(DeliveryFailure, match="no mail server"):
        send_mail(None, "ada@example.com", MESSAGE)
