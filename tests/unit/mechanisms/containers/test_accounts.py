"""Accounts and their subordinate ids."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gpupool.mechanisms.containers.accounts import (
    ContainerAccount,
    IdRange,
    MissingPart,
    find_account,
    find_free_id,
    parse_subordinate_ids,
)

NOBODY = pwd.getpwnam("nobody")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ann:100000:65536\n", IdRange(100_000, 65_536)),
        ("bob:1:65536\n1001:200000:99999\n", IdRange(200_000, 65_536)),
        ("ann:100000:10\nann:300000:5000\n", IdRange(300_000, 5_000)),
        ("anne:100000:65536\n", None),
        ("ann:x:65536\nann:1\n# ann:1:65536\n\n", None),
        ("", None),
    ],
)
def test_the_first_usable_range_of_the_account_counts(text: str, found: IdRange | None) -> None:
    assert parse_subordinate_ids(text, "ann", 1001) == found


def test_an_account_with_ids_is_found(tmp_path: Path) -> None:
    for name in ("subuid", "subgid"):
        (tmp_path / name).write_text("nobody:100000:65536\n")
    found = find_account(NOBODY.pw_uid, 7, tmp_path)
    assert isinstance(found, ContainerAccount)
    assert (found.name, found.gid, found.user_ids.first) == ("nobody", 7, 100_000)


def test_an_account_without_ids_learns_the_command_that_adds_free_ones(tmp_path: Path) -> None:
    (tmp_path / "subuid").write_text("bob:100000:65536\n")
    found = find_account(NOBODY.pw_uid, NOBODY.pw_gid, tmp_path)
    assert found == MissingPart(
        f"account nobody has no 1000 subordinate ids in {tmp_path}/subuid",
        "usermod --add-subuids 165536-231071 --add-subgids 165536-231071 nobody",
    )


def test_root_needs_subordinate_ids_as_others_do(tmp_path: Path) -> None:
    missing = find_account(0, 0, tmp_path)
    assert isinstance(missing, MissingPart)
    assert missing.hint.endswith("--add-subgids 100000-165535 root")
    for name in ("subuid", "subgid"):
        (tmp_path / name).write_text("root:100000:65536\n")
    found = find_account(0, 0, tmp_path)
    assert isinstance(found, ContainerAccount)
    assert (found.uid, found.user_ids.first) == (0, 100_000)


def test_an_unknown_uid_runs_no_container(tmp_path: Path) -> None:
    unknown = find_account(4_000_000 + os.getpid(), 0, tmp_path)
    assert isinstance(unknown, MissingPart)
    assert "no account" in unknown.reason


def test_the_first_free_id_is_above_every_range() -> None:
    assert find_free_id("") == 100_000
    assert find_free_id("a:100000:5\nb:300000:10\nc:x:y\n") == 300_010
