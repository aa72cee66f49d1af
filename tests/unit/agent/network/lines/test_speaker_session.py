"""What is learned of a peer, what is refused, and why a session is down."""

from __future__ import annotations

import pytest

from gpupool.agent.network.lines.speaker_session import (
    SpeakerView,
    count_wrong_keys,
    describe_session,
)
from tests.support.dedicated_lines import make_work

UP = {"bgpState": "Established"}


def test_a_session_that_is_up_tells_what_is_learned_and_refused() -> None:
    accepted = ["172.20.0.0/16"]
    received = [*accepted, "8.8.8.0/24", "172.20.7.0/24", "10.0.0.0/24"]
    report = describe_session(make_work(), SpeakerView(UP, accepted, received), (), 0)
    assert (report.state, report.learned, report.refused_count) == ("up", accepted, 2)
    # Its own prefix, which the peer sends back, is no refusal.
    assert [(one.prefix, one.reason) for one in report.refused] == [
        ("8.8.8.0/24", "not allowed"),
        ("172.20.7.0/24", "its path has our AS number, or it is malformed"),
    ]


def test_over_the_limit_what_was_learned_stays() -> None:
    many = [f"172.20.{number}.0/24" for number in range(9)]
    before = ["172.20.7.0/24", "172.20.8.0/24"]
    report = describe_session(make_work(), SpeakerView(UP, many, many), before, 0)
    assert report.learned == ["172.20.0.0/24", *before]
    assert report.refused_count == 6
    assert {one.reason for one in report.refused} == {"over the limit of 3 prefixes"}


@pytest.mark.parametrize(
    ("neighbor", "key", "wrong", "reason"),
    [
        ({"bgpState": "Active"}, None, 0, "192.168.200.6 does not answer"),
        ({"bgpState": "Active"}, "k", 2, "packets of 192.168.200.6 have a wrong MD5 key"),
        ({}, None, 1, "packets of 192.168.200.6 have an MD5 key, and the line has none"),
        (
            {"lastNotificationReason": "OPEN Message Error/Bad Peer AS"},
            None,
            0,
            "the session with 192.168.200.6 ended: OPEN Message Error/Bad Peer AS",
        ),
    ],
)
def test_a_session_that_is_down_says_why(
    neighbor: dict[str, str], key: str | None, wrong: int, reason: str
) -> None:
    view = SpeakerView(neighbor, (), ())
    report = describe_session(make_work(key=key), view, ["172.20.0.0/16"], wrong)
    assert (report.state, report.learned, report.reason) == ("down", [], reason)


def test_wrong_keys_are_counted_by_the_names_of_the_counters() -> None:
    text = (
        "TcpExt: SyncookiesSent TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure Other\n"
        "TcpExt: 9 1 2 3 9\nIpExt: InNoRoutes\nIpExt: 7\n"
    )
    assert count_wrong_keys(text) == 6
    assert count_wrong_keys("IpExt: InNoRoutes\nIpExt: 7\n") == 0
