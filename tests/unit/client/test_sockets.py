"""The way to a pool's socket, and what a command prints when there is none."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import NoPermission, PoolNotRunning
from gpupool.client.transport import Api
from tests.unit.client.scripted_pool import ScriptedPool, reply


def test_a_socket_path_longer_than_sockaddr_un_is_reached(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    with ScriptedPool(deep, lambda _: reply([1])) as pool:
        assert Api(ClientSettings(state_dir=pool.state_dir)).request("GET", "pool") == [1]


def test_a_missing_socket_says_how_to_start_that_pool(tmp_path: Path) -> None:
    with pytest.raises(PoolNotRunning) as caught:
        Api(ClientSettings(state_dir=tmp_path / "none")).request("GET", "pool")
    assert caught.value.hint == f"start one: gpupool up --state-dir {tmp_path / 'none'}"


def test_a_socket_without_a_listener_is_a_pool_that_is_not_running(tmp_path: Path) -> None:
    pool = ScriptedPool(tmp_path, lambda _: reply({}))
    pool.stop()
    with pytest.raises(PoolNotRunning):
        Api(ClientSettings(state_dir=pool.state_dir)).request("GET", "pool")


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")
def test_a_socket_of_another_user_is_refused_by_name(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path / "theirs", lambda _: reply({})) as pool:
        (tmp_path / "theirs" / "gpupool.sock").chmod(0o600)
        for folder in (tmp_path, *tmp_path.parents):
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o111)
        os.seteuid(65534)
        try:
            with pytest.raises(NoPermission, match="belongs to another user"):
                Api(ClientSettings(state_dir=pool.state_dir)).request("GET", "pool")
        finally:
            os.seteuid(0)
