"""Questions for names and their answers, with answers that a resolver should never send."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address

import pytest

from gpupool.agent.network.naming.name_question import (
    NameAnswer,
    await_address,
    make_question,
    read_answer,
)

QUESTION = make_question(7, "web.lab")
NAME = b"\x03web\x03lab\x00"


def make_answer(*addresses: str, flags: int = 0x8180, number: int = 7) -> bytes:
    records = b"".join(
        b"\xc0\x0c" + struct.pack("!2HIH", 1, 1, 0, 4) + IPv4Address(each).packed
        for each in addresses
    )
    header = struct.pack("!6H", number, flags, 1, len(addresses), 0, 0)
    return header + QUESTION[12:] + records


def test_a_question_is_for_the_address_of_the_name() -> None:
    assert struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + NAME + b"\0\1\0\1" == QUESTION


def test_addresses_are_read_from_an_answer() -> None:
    found = read_answer(7, make_answer("10.0.0.2", "10.0.0.3"))
    assert found == NameAnswer((IPv4Address("10.0.0.2"), IPv4Address("10.0.0.3")), is_cut=False)
    assert read_answer(7, make_answer()) == NameAnswer((), is_cut=False)
    cut = read_answer(7, make_answer("10.0.0.2", flags=0x8380))
    assert cut is not None
    assert cut.is_cut


def test_a_refusal_and_an_answer_to_another_question_are_none() -> None:
    assert read_answer(8, make_answer("10.0.0.2")) is None
    assert read_answer(7, make_answer(flags=0x8183)) is None
    assert read_answer(7, QUESTION) is None


@pytest.mark.parametrize("length", range(0, 60, 3))
def test_an_answer_that_was_cut_anywhere_is_none_or_short(length: int) -> None:
    whole = make_answer("10.0.0.2")
    assert length >= len(whole) or read_answer(7, whole[:length]) is None


@contextmanager
def resolver(answer: Callable[[list[bytes]], list[bytes]]) -> Iterator[socket.socket]:
    """A socket that is connected to a resolver, which answers what `answer` makes of all questions."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    questions = list[bytes]()

    def serve() -> None:
        while True:
            message, source = server.recvfrom(4096)
            if not message:
                return
            questions.append(message)
            for each in answer(questions):
                server.sendto(each, source)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.connect(server.getsockname())
            yield asking
    finally:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", server.getsockname())
        thread.join()
        server.close()


def answer_one(question: bytes, *addresses: str) -> bytes:
    return make_answer(*addresses, number=int.from_bytes(question[:2]))


def test_an_answer_that_comes_late_does_not_stand_for_a_later_one() -> None:
    def answer(questions: list[bytes]) -> list[bytes]:
        # The first answer waits for the second question, and says less than the second one.
        if len(questions) == 1:
            return []
        late = [answer_one(questions[0])] if len(questions) == 2 else []
        return [*late, answer_one(questions[-1], "10.0.0.2")]

    with resolver(answer) as asking:
        assert await_address(asking, "web.lab", IPv4Address("10.0.0.2"), 5)


def test_a_name_of_another_job_alone_is_waited_for_until_the_time_is_over() -> None:
    with resolver(lambda questions: [answer_one(questions[-1], "10.0.0.3")]) as asking:
        assert not await_address(asking, "web.lab", IPv4Address("10.0.0.2"), 0.1)
    with resolver(lambda questions: [answer_one(questions[-1], "100.126.0.5")]) as asking:
        # A load balancer of that name stands before the job.
        assert await_address(asking, "web.lab", IPv4Address("10.0.0.2"), 5)
