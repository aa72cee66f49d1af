"""What a measurement proves: a limit is broken by too much, and by too little nothing is shown."""

from __future__ import annotations

import pytest

from gpupool.agent.network.verification.path_checks import (
    build_question,
    judge_limit,
    list_limited_paths,
)
from gpupool.wire.network.promises import ProbePort


def make_port(key: str, network: str = "lab", **limits: int) -> ProbePort:
    return ProbePort(
        key=key,
        network=network,
        name=key,
        address="10.0.0.2",
        prefix=24,
        gateway="10.0.0.1",
        mac="0a:00:00:00:00:01",
        mtu=1442,
        domain="lab.gpupool.internal",
        **limits,
    )


def test_a_limit_is_measured_with_a_job_that_is_no_narrower() -> None:
    jobs = [
        make_port("one", in_kbit=20_000, out_kbit=50_000),
        make_port("two", out_kbit=10_000),
        make_port("three", network="other"),
    ]
    peers = {
        (path.port.key, path.direction): path.peer and path.peer.key
        for path in list_limited_paths(jobs)
    }
    assert peers == {("one", "in"): None, ("one", "out"): "two", ("two", "out"): "one"}


@pytest.mark.parametrize(
    ("received", "kept"),
    [(0, None), (17_999, None), (18_000, True), (21_000, True), (21_001, False)],
)
def test_too_much_breaks_a_limit_and_too_little_shows_nothing(
    received: int, kept: bool | None
) -> None:
    check, found = judge_limit("limit", "n-one", "in", 20_000, received)
    assert check.measured == f"{received} of 20000 kbit/s"
    assert check.kept is kept
    assert (found is not None) == (kept is True)
    assert (check.reason != "") == (kept is None)


def test_a_question_is_about_the_address_of_a_name() -> None:
    question = build_question("a.bc")
    assert question[2:] == b"\x01\0\0\x01\0\0\0\0\0\0" + b"\x01a\x02bc\0" + b"\0\x01\0\x01"
    # RFC 3596 section 2.1.
    assert build_question("a.bc", 28)[-4:] == b"\0\x1c\0\x01"
