"""A state directory knows whose it is: renamed it stays the same pool's, copied it is nobody's."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import CopiedPool, StateUnusable
from gpupool.base.instance import FILE, PoolInstance, claim_directory, is_copy, read_identity

HERE = PoolInstance("n", "m", "b", "/pool", 1, 10)


def test_a_claimed_directory_keeps_its_nonce_across_claims_and_renames(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = claim_directory(tmp_path / "a")
    assert claim_directory(tmp_path / "a") == first
    (tmp_path / "a").rename(tmp_path / "b")
    moved = claim_directory(tmp_path / "b")
    assert (moved.nonce, moved.path) == (first.nonce, str(tmp_path / "b"))
    assert read_identity(tmp_path / "b") == moved


def test_a_copy_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    claim_directory(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    before = (tmp_path / "b" / FILE).read_bytes()
    with pytest.raises(CopiedPool, match=f"copy of the pool at {tmp_path / 'a'}"):
        claim_directory(tmp_path / "b")
    assert (tmp_path / "b" / FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        ({}, False),
        ({"inode": 11}, True),
        ({"path": "/renamed"}, False),
        ({"device": 2}, False),  # mounted again, in its place
        ({"device": 2, "path": "/snapshot"}, True),
        ({"device": 2, "path": "/elsewhere", "boot": "c"}, False),  # a disk that moved
    ],
)
def test_a_copy_is_told_from_a_move(here: dict[str, object], expected: bool) -> None:
    assert is_copy(HERE, replace(HERE, **here)) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"nonce": "x"})])
def test_a_damaged_identity_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StateUnusable, match="cannot be read"):
        claim_directory(tmp_path)
