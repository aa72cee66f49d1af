"""Where a command looks for its pool: settings, environment, saved login, addresses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings, client_settings
from gpupool.base.errors import BadInput, PoolNotRunning
from gpupool.client.endpoints import PoolEndpoint, list_endpoints
from gpupool.client.transport import Api
from tests.unit.client.scripted_pool import ScriptedPool, reply


def test_ones_own_pool_comes_before_the_systems(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply({"whose": "own"})):
        assert Api(ClientSettings(own_state_dir=tmp_path)).request("GET", "pool") == {
            "whose": "own"
        }


def test_without_any_pool_the_answer_is_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gpupool.base.client_settings.SYSTEM_SOCKET_TEXT", str(tmp_path / "system" / "s")
    )
    with pytest.raises(PoolNotRunning, match="no pool is running here") as caught:
        Api(ClientSettings(own_state_dir=tmp_path)).request("GET", "pool")
    assert caught.value.hint == "start one: gpupool up"


def test_the_order_is_state_directory_url_login_own_pool(tmp_path: Path) -> None:
    login = tmp_path / "login.json"
    login.write_text(json.dumps({"url": "https://saved:1", "token": "t"}))
    everything = {
        "state_dir": "/s",
        "url": "http://u:1",
        "login_file": login,
        "own_state_dir": "/own",
    }
    order = []
    for dropped in ("", "state_dir", "url", "login_file"):
        everything.pop(dropped, None)
        order.append(str(list_endpoints(ClientSettings(**everything))[0]))  # type: ignore[arg-type]
    assert order == ["/s/gpupool.sock", "http://u:1", "https://saved:1", "/own/gpupool.sock"]


def test_an_argument_wins_over_the_environment() -> None:
    environ = {"GPUPOOL_STATE_DIR": "/env", "GPUPOOL_URL": "http://e:1", "HOME": "/h"}
    assert client_settings(environ, state_dir="/arg").state_dir == "/arg"
    assert str(list_endpoints(client_settings(environ))[0]) == "/env/gpupool.sock"


def test_the_environment_says_where_own_state_and_login_lie() -> None:
    settings = client_settings({"HOME": "/h"}, uid=1000)
    assert (settings.own_state_dir, settings.login_file) == (
        "/h/.local/state/gpupool",
        "/h/.config/gpupool/login.json",
    )
    moved = client_settings(
        {"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, uid=1000
    )
    assert (moved.own_state_dir, moved.login_file) == ("/s/gpupool", "/c/gpupool/login.json")
    assert client_settings({"HOME": "/root"}, uid=0).own_state_dir == "/var/lib/gpupool"


def test_a_broken_saved_login_is_said_and_how_to_drop_it(tmp_path: Path) -> None:
    (tmp_path / "login.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read") as caught:
        list_endpoints(ClientSettings(login_file=tmp_path / "login.json"))
    assert caught.value.hint == "gpupool login --forget"


@pytest.mark.parametrize(
    ("url", "shown", "base"),
    [
        ("https://h:8443", "https://h:8443", ""),
        ("http://h", "http://h:80", ""),
        ("https://h", "https://h:443", ""),
        ("http://[::1]:8470", "http://::1:8470", ""),
        ("http://h:1/pool/", "http://h:1/pool", "/pool"),
        ("unix:///run/x.sock", "/run/x.sock", ""),
    ],
)
def test_addresses_are_read(url: str, shown: str, base: str) -> None:
    endpoint = PoolEndpoint(url=url)
    assert (str(endpoint), endpoint.base) == (shown, base)


@pytest.mark.parametrize("url", ["host:8443", "ftp://h:1", "http://", "http://h:x", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="not the address of a pool"):
        PoolEndpoint(url=url)
