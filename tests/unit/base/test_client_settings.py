"""Which pool a client talks to, as the environment says it."""

from __future__ import annotations

import os

from gpupool.base.client_settings import client_settings, login_file, own_state_dir

HOME = {"HOME": "/home/ada"}


def test_settings_of_an_empty_environment_name_no_pool() -> None:
    found = client_settings({}, uid=1000)
    assert (found.state_dir, found.url, found.token, found.ca_file) == (None, None, None, None)


def test_settings_take_empty_variables_as_unset() -> None:
    environ = {"GPUPOOL_URL": "", "GPUPOOL_TOKEN": "", "GPUPOOL_STATE_DIR": ""}
    found = client_settings({**HOME, **environ}, uid=1000)
    assert (found.state_dir, found.url, found.token) == (None, None, None)


def test_state_directory_of_the_command_line_overrides_directory_and_url() -> None:
    environ = {**HOME, "GPUPOOL_STATE_DIR": "/a", "GPUPOOL_URL": "https://pool"}
    found = client_settings(environ, state_dir="b", uid=1000)
    assert (found.state_dir, found.url) == (os.path.abspath("b"), None)
    found = client_settings(environ, uid=1000)
    assert (found.state_dir, found.url) == ("/a", "https://pool")


def test_own_state_directory_follows_account_and_xdg() -> None:
    assert own_state_dir(HOME, 0) == "/var/lib/gpupool"
    assert own_state_dir(HOME, 1000) == "/home/ada/.local/state/gpupool"
    assert own_state_dir({**HOME, "XDG_STATE_HOME": "/s"}, 1000) == "/s/gpupool"
    assert own_state_dir({}, 1000) == "/.local/state/gpupool"


def test_login_file_follows_xdg() -> None:
    assert login_file(HOME) == "/home/ada/.config/gpupool/login.json"
    assert login_file({**HOME, "XDG_CONFIG_HOME": "/c"}) == "/c/gpupool/login.json"
