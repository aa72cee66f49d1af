"""Pings from a network namespace to its loopback address."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from gpupool.agent.network.gateways.ping_probe import INTERVAL_SECONDS, PingProbe

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

#: Lets every group ping there, as the namespace of a job's port does.
_PREPARE = (
    "ip link set lo up && echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range && echo && cat"
)


@pytest.fixture
def namespace() -> Iterator[Path]:
    words = ["unshare", "--net", "sh", "-c", _PREPARE]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield Path(f"/proc/{process.pid}/ns/net")
        process.kill()


def test_answers_are_counted_and_their_lack_is_an_outage(namespace: Path) -> None:
    probe = PingProbe(namespace, IPv4Address("127.0.0.1"))
    try:
        began = time.monotonic()
        probe.start()
        assert probe.wait_for_answers(5, began, 10)
        # Nothing was missed: the longest pause is far from a missing second.
        assert probe.find_outage(began) < 1
        assert probe.count_answers(time.monotonic() + 60) == 0
        assert not probe.wait_for_answers(1, time.monotonic() + 60, 0.05)
    finally:
        probe.stop()
    ended = time.monotonic()
    while time.monotonic() < ended + 10 * INTERVAL_SECONDS:
        time.sleep(INTERVAL_SECONDS)
    assert probe.find_outage(ended) >= 9 * INTERVAL_SECONDS
