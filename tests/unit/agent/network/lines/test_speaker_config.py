"""A speaker's configuration: its filters, its key, and changes of what it announces."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.network.daemons import locate_engine
from gpupool.agent.network.lines.speaker_config import (
    format_speaker,
    list_announced,
    list_announcement_commands,
    list_speaker_helpers,
    locate_speaker,
)
from tests.support.dedicated_lines import make_work


def test_a_speaker_learns_allowed_prefixes_and_announces_its_own_by_the_router() -> None:
    lines = format_speaker(make_work(allowed=["172.20.0.0/16", "172.30.0.1/32"])).splitlines()
    assert "ip prefix-list ALLOWED seq 5 permit 172.20.0.0/16 le 32" in lines
    assert "ip prefix-list ALLOWED seq 10 permit 172.30.0.1/32" in lines
    assert " match ip address prefix-list ALLOWED" in lines
    assert "  neighbor 192.168.200.6 route-map IN in" in lines
    assert " match as-path OWN" in lines
    assert " set ip next-hop 192.168.200.1" in lines
    assert not any("password" in line or "bfd" in line for line in lines)


def test_a_key_and_bfd_are_settings_of_the_neighbor() -> None:
    text = format_speaker(make_work(key="k!#?$", bfd=True))
    assert " neighbor 192.168.200.6 password k!#?$\n" in text
    assert " neighbor 192.168.200.6 bfd 5 300 300\n" in text


@pytest.mark.parametrize("key", ["a b", "a\nrouter bgp 1", "", "\x7f"])
def test_a_key_that_would_be_another_command_never_becomes_one(key: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII"):
        format_speaker(make_work(key=key))


def test_other_subnets_change_a_running_speaker_by_these_alone() -> None:
    before = format_speaker(make_work(announced=["10.0.0.0/24", "10.0.1.0/24"]))
    work = make_work(announced=["10.0.1.0/24", "10.0.2.0/24"])
    assert list_announced(before) == ["10.0.0.0/24", "10.0.1.0/24"]
    assert list_announcement_commands(work, list_announced(before)) == [
        "configure terminal",
        "router bgp 64512",
        "address-family ipv4 unicast",
        "no network 10.0.0.0/24",
        "network 10.0.2.0/24",
        "end",
    ]
    assert list_announcement_commands(work, work.announced) == []


def test_the_key_is_on_no_command_line(tmp_path: Path) -> None:
    files = locate_engine(tmp_path)
    work = make_work(key="hidden-key", bfd=True)
    helpers = list_speaker_helpers(files, work, Path("/run/netns/x"))
    names = [Path(helper.arguments[0]).name for helper in helpers]
    assert names == ["zebra", "bgpd", "bfdd"]
    for helper in helpers:
        assert helper.network_namespace == "/run/netns/x"
        assert not any("hidden-key" in word for word in helper.arguments)
        assert str(locate_speaker(files, work.id)) in helper.arguments


def test_the_socket_of_a_speaker_has_a_short_path(tmp_path: Path) -> None:
    directory = locate_speaker(locate_engine(tmp_path / ("long-" * 40)), make_work().id)
    # sun_path of Linux, with its NUL (unix(7)).
    assert len(f"{directory}/zserv.api") < 108
