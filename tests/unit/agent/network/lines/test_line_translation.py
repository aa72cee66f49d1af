"""The rules of a translation: their words, what the kernel says of them, and what is announced."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from gpupool.agent.network.lines.line_translation import format_translation
from gpupool.agent.network.lines.speaker_config import format_speaker
from tests.support.dedicated_lines import make_work

WORK = make_work(
    announced=["100.64.7.0/24"],
    allowed=["10.0.0.0/24", "172.20.0.0/16"],
    ours=[
        {"inside": "10.0.0.0/24", "outside": "100.64.7.0/24"},
        {"inside": "10.0.1.0/24", "outside": "10.0.1.0/24"},
    ],
    theirs=[
        {"inside": "100.64.8.0/24", "outside": "10.0.0.0/24"},
        {"inside": "172.20.0.0/16", "outside": "172.20.0.0/16"},
    ],
)


def test_a_packet_goes_to_the_side_of_its_target_and_both_addresses_change() -> None:
    rules = format_translation(WORK).splitlines()
    assert "ip daddr { 100.64.8.0/24, 172.20.0.0/16 } meta mark set 1" in rules
    assert "ip daddr { 100.64.7.0/24, 10.0.1.0/24 } meta mark set 2" in rules
    assert [rule for rule in rules if " prefix to " in rule] == [
        "ip daddr 100.64.7.0/24 dnat prefix to 10.0.0.0/24",
        "meta mark 1 ip daddr 100.64.8.0/24 dnat prefix to 10.0.0.0/24",
        "meta mark 1 ip saddr 10.0.0.0/24 snat prefix to 100.64.7.0/24",
        "meta mark 2 ip saddr 10.0.0.0/24 snat prefix to 100.64.8.0/24",
    ]
    # Nothing else passes: from other addresses, or between two hosts of one side.
    assert "type filter hook forward priority filter; policy drop;" in rules
    assert [rule for rule in rules if rule.endswith(" accept")] == [
        "meta mark 1 ip saddr { 10.0.0.0/24, 10.0.1.0/24 } accept",
        "meta mark 2 ip saddr { 10.0.0.0/24, 172.20.0.0/16 } accept",
    ]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("nft") is None, reason="needs nft and root")
def test_nftables_takes_the_rules_twice() -> None:
    script = 'printf %s "$1" | nft -f - && printf %s "$1" | nft -f -'
    rules = format_translation(WORK)
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, "sh", rules],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_company_learns_the_speaker_as_the_way() -> None:
    text = format_speaker(WORK)
    assert " set ip next-hop 192.168.200.2\n" in text
    assert "  network 100.64.7.0/24\n" in text
    assert " set ip next-hop 192.168.200.1\n" in format_speaker(make_work())
