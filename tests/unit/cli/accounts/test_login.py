"""`gpupool login`: the token is read and never kept, the session is kept for its owner."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from gpupool.base.errors import BadOption, NotLoggedIn
from gpupool.cli.accounts.login import read_token, save_login
from tests.unit.cli.golden import TypedLine


def test_a_login_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "conf" / "login.json"
    before = os.umask(0)
    try:
        save_login(str(file), {"url": "https://h:1", "token": "secret"})
        save_login(str(file), {"url": "https://h:1", "token": "newer"})
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text())["token"] == "newer"
    assert os.listdir(file.parent) == ["login.json"]


def test_a_token_is_read_from_a_file_and_an_empty_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("gpp_x\nrest\n")
    assert read_token(str(tmp_path / "t")) == "gpp_x"
    (tmp_path / "t").write_text("\n")
    with pytest.raises(NotLoggedIn):
        read_token(str(tmp_path / "t"))
    with pytest.raises(BadOption, match="cannot read the token file"):
        read_token(str(tmp_path / "none"))


def test_login_forget_removes_the_saved_login_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_line: TypedLine
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "gpupool" / "login.json"
    save_login(str(file), {"url": "https://h:1", "token": "secret"})
    assert type_line("login --forget") == (0, "the saved login is gone\n", "")
    assert not file.exists()
    assert type_line("login --forget") == (0, "no login was saved\n", "")


def test_login_without_an_address_is_refused(type_line: TypedLine) -> None:
    code, _, err = type_line("login")
    assert (code, err.splitlines()[0]) == (
        2,
        "gpupool: GP-1005: login needs the address of a pool",
    )


def test_login_does_not_follow_a_link_in_place_of_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "login.json.new").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        save_login(str(tmp_path / "login.json"), {"token": "secret"})
    assert not (tmp_path / "theirs").exists()
