"""Files between an agent and its watchdog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpupool.agent.network.gateways.watchdog_files import (
    STATE,
    WatchdogSettings,
    WatchdogState,
    read_settings,
    read_state,
    write_settings,
    write_state,
)

SETTINGS = WatchdogSettings(
    chassis="c1",
    peer="c2",
    names={"c1": "one", "c2": "two"},
    peer_tunnel="10.0.0.2",
    northbound="unix:/run/x",
    certificates="",
    run="/run",
    switch="unix:/run/y",
    bridge_socket="/run/z",
    address="203.0.113.10",
    interface="eth1",
    upstream="",
    is_first=True,
    is_drained=False,
)


def test_settings_come_back_as_they_were_and_are_written_once(tmp_path: Path) -> None:
    write_settings(tmp_path, SETTINGS)
    assert read_settings(tmp_path) == SETTINGS
    (path,) = tmp_path.iterdir()
    inode = path.stat().st_ino
    write_settings(tmp_path, SETTINGS)
    assert path.stat().st_ino == inode
    write_settings(tmp_path, replace(SETTINGS, is_drained=True))
    assert read_settings(tmp_path).is_drained


def test_a_state_comes_back_and_a_damaged_one_is_empty(tmp_path: Path) -> None:
    assert read_state(tmp_path) == WatchdogState()
    state = WatchdogState("active", "why", 7, {"c1": 31, "c2": 20}, 90)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    for text in ("", "[]", '{"state": 1, "of another release": 2}'):
        (tmp_path / STATE).write_text(text)
        assert read_state(tmp_path) == WatchdogState()
