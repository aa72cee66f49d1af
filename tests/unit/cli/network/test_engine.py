"""What `network status` prints of the databases, and when `network enable` has nothing to wait for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.network.engine import (
    SERVER_COLUMNS,
    _describe_passing,
    _has_settled,
    _read_ovn,
)
from gpupool.terminal.output import format_table


def make_server(node: str, **values: Any) -> dict[str, Any]:
    usual = {
        "node": node,
        "state": "joined",
        "is_away": False,
        "northbound": "follower",
        "northbound_term": 3,
        "southbound": "leader",
        "southbound_term": 12,
    }
    return usual | values


def test_servers_show_their_roles_and_which_one_is_away() -> None:
    gone = make_server("gpu-2", is_away=True, northbound="none", southbound="none")
    assert format_table([make_server("gpu-1"), gone], SERVER_COLUMNS).splitlines() == [
        "DATABASES  STATE   NORTHBOUND  TERM  SOUTHBOUND  TERM",
        "gpu-1      joined  follower       3  leader        12",
        "gpu-2      away    -              3  -             12",
    ]


@pytest.mark.parametrize(
    ("engine", "servers", "expected"),
    [
        ("ready", ["joined", "joined", "joined"], True),
        ("ready", ["joined", "joining", "joined"], False),
        ("ready", ["joined", "joined", "leaving"], False),
        ("starting", [], False),
        ("ready", [], True),
        # It needs an admin: nothing to wait for.
        ("failed", ["joined", "joining", "joined"], True),
    ],
)
def test_enable_waits_until_every_server_has_joined(
    engine: str, servers: list[str], *, expected: bool
) -> None:
    found = [make_server(f"gpu-{index}", state=state) for index, state in enumerate(servers)]
    assert _has_settled({"state": engine, "databases": found}) is expected


def test_a_wait_that_is_too_long_names_the_server_that_is_missing() -> None:
    servers = [make_server("gpu-1"), make_server("gpu-2", state="joining")]
    assert _describe_passing({"state": "ready", "databases": servers}) == (
        "the databases of gpu-2 are still joining"
    )
    assert _describe_passing({"state": "starting", "databases": servers}) == (
        "the engine is still starting"
    )


def make_ovn_options(**values: str) -> argparse.Namespace:
    names = ("ovn", "ovn_southbound", "ovn_certificate", "ovn_key", "ovn_ca")
    return argparse.Namespace(**(dict.fromkeys(names) | values))


def test_an_ovn_is_sent_with_the_content_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("KEY")
    options = make_ovn_options(ovn="ssl:192.0.2.7:6641", ovn_key=str(tmp_path / "key.pem"))
    assert _read_ovn(options) == {
        "northbound": "ssl:192.0.2.7:6641",
        "southbound": None,
        "private_key": "KEY",
    }
    assert _read_ovn(make_ovn_options()) is None


def test_options_of_an_ovn_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="without the OVN"):
        _read_ovn(make_ovn_options(ovn_southbound="tcp:192.0.2.7:6642"))
    with pytest.raises(BadOption, match=r"absent\.pem: No such file"):
        _read_ovn(make_ovn_options(ovn="tcp:192.0.2.7:6641", ovn_ca=str(tmp_path / "absent.pem")))
    (tmp_path / "binary.pem").write_bytes(b"\xff\xfe")
    with pytest.raises(BadOption, match="not a text file"):
        _read_ovn(make_ovn_options(ovn="tcp:192.0.2.7:6641", ovn_ca=str(tmp_path / "binary.pem")))
