"""What OVN may use of a switch, with a real database and with commands in place of the switch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.datapath_features import DatapathFeatures
from tests.support.ovsdb import DatabaseServer, find_missing_part, switch_server

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())

#: Says what it was asked. What ovs-ofctl prints is in a file.
PROGRAM = """#!/bin/sh
echo "${0##*/} $*" >>"$LOG"
[ "${0##*/}" != ovs-ofctl ] || cat "$FLOWS"
"""


class Switch:
    """The database of a switch, and what its commands were asked."""

    def __init__(self, server: DatabaseServer, place: Path) -> None:
        self.flows = place / "flows"
        self.flows.write_text("actions=ct(commit,zone=NXM_NX_REG13[0..15])\n")
        self._log = place / "log"
        self._log.touch()
        self._server = server
        self.remote = server.remote
        server.command_switch("init")
        for name in ("netdev", "system"):
            words = ("--id=@d", "create", "Datapath", "datapath_version=1")
            server.command_switch(*words, "--", "set", "Open_vSwitch", ".", f"datapaths:{name}=@d")

    def write(self, value: str) -> None:
        """Write the features of both, as a switch does that starts."""
        rows = self._server.command_switch("--bare", "--columns=_uuid", "list", "Datapath").split()
        for row in rows:
            pairs = (f"capabilities:ct_zero_snat={value}", "capabilities:recirc=true")
            self._server.command_switch("set", "Datapath", row, *pairs)

    def remove(self, name: str) -> None:
        self._server.command_switch("remove", "Open_vSwitch", ".", "datapaths", name)

    def read(self, name: str) -> str:
        row = self._server.command_switch("get", "Open_vSwitch", ".", f"datapaths:{name}")
        return self._server.command_switch("get", "Datapath", row, "capabilities")

    def list_commands(self) -> list[str]:
        """What was asked since the last look, by its last word."""
        words = [line.split()[-1] for line in self._log.read_text().splitlines()]
        self._log.write_text("")
        return words


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    with switch_server() as server:
        found = Switch(server, tmp_path)
        programs = tmp_path / "programs"
        programs.mkdir()
        for name in ("ovs-ofctl", "ovs-appctl"):
            (programs / name).write_text(PROGRAM)
            (programs / name).chmod(0o755)
        monkeypatch.setenv("LOG", str(tmp_path / "log"))
        monkeypatch.setenv("FLOWS", str(found.flows))
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin")
        yield found


@pytest.fixture
def features(switch: Switch) -> Iterator[DatapathFeatures]:
    found = DatapathFeatures(switch.remote, Path("/run/x"))
    yield found
    found.close()


FORGET = ["unix:/run/x/br-int.mgmt", "revalidator/wait", "dpctl/flush-conntrack"]


def test_the_feature_is_withheld_each_time_that_a_switch_has_started(
    switch: Switch, features: DatapathFeatures
) -> None:
    for _ in range(2):
        switch.write("true")
        features.restrict()
        assert 'ct_zero_snat="false"' in switch.read("netdev")
        assert 'recirc="true"' in switch.read("netdev")
        assert switch.list_commands() == FORGET
        # Nothing is forgotten where nothing has changed.
        features.restrict()
        assert switch.list_commands() == []
    # The kernel's has no fault.
    assert 'ct_zero_snat="true"' in switch.read("system")


def test_connections_are_forgotten_when_no_flow_makes_more_of_them(
    switch: Switch, features: DatapathFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.agent.network.datapath_features._CHANGE_SECONDS", 0.2)
    switch.write("true")
    switch.flows.write_text("actions=ct(commit,zone=NXM_NX_REG13[0..15],nat(src),exec(a))\n")
    features.restrict()
    assert set(switch.list_commands()) == {FORGET[0]}
    # The next look goes on, although the database has the new value already.
    switch.flows.write_text("actions=ct(commit,zone=NXM_NX_REG13[0..15],nat(src=10.0.0.1))\n")
    features.restrict()
    assert switch.list_commands() == FORGET


def test_the_kernels_switch_is_not_waited_for(
    switch: Switch, features: DatapathFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A wait would not end within this test.
    monkeypatch.setattr("gpupool.agent.network.datapath_features._CHANGE_SECONDS", 3600.0)
    switch.remove("netdev")
    switch.write("true")
    features.wait_for_switch()
    assert 'ct_zero_snat="true"' in switch.read("system")
    assert switch.list_commands() == []


def test_a_switch_that_does_not_know_the_feature_is_left_alone(
    switch: Switch, features: DatapathFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.agent.network.datapath_features._CHANGE_SECONDS", 0.1)
    features.wait_for_switch()
    assert switch.read("netdev") == "{}"
    assert switch.list_commands() == []
