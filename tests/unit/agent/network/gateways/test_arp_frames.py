"""ARP frames, against those that a kernel makes."""

from __future__ import annotations

from ipaddress import IPv4Address

from gpupool.agent.network.gateways.arp_frames import (
    ArpReply,
    make_announcement,
    make_probe,
    read_reply,
)

OURS = bytes.fromhex("027000000001")
THEIRS = bytes.fromhex("027000000002")
ROUTER = IPv4Address("203.0.113.1")
#: An answer as Linux sends it, with padding to the least length of Ethernet.
ANSWER = bytes.fromhex(
    "02700000000102700000000208060001080006040002027000000002cb00710102700000000100000000"
) + bytes(18)


def test_a_probe_says_no_address_of_ours() -> None:
    frame = make_probe(OURS, ROUTER)
    assert frame[:14] == b"\xff" * 6 + OURS + b"\x08\x06"
    assert frame[14:22] == bytes.fromhex("0001080006040001")
    # RFC 5227: sender address 0.0.0.0, so that no cache changes.
    assert frame[22:32] == OURS + bytes(4)
    assert frame[32:42] == bytes(6) + ROUTER.packed
    assert make_probe(OURS, ROUTER, THEIRS)[:6] == THEIRS


def test_an_announcement_has_the_address_twice() -> None:
    frame = make_announcement(OURS, ROUTER)
    assert frame[:6] == b"\xff" * 6
    assert frame[28:32] == frame[38:42] == ROUTER.packed


def test_only_answers_are_read() -> None:
    assert read_reply(ANSWER) == ArpReply(ROUTER, THEIRS)
    assert read_reply(make_probe(OURS, ROUTER)) is None
    assert read_reply(ANSWER[:41]) is None
    assert read_reply(b"") is None
    assert read_reply(ANSWER[:12] + b"\x08\x00" + ANSWER[14:]) is None
