"""Trees that others made are removed: deep ones, read-only ones, and no link is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.files.trees import remove_tree
from tests.support.deep_trees import few_frames, make_deep_tree


def test_a_tree_deeper_than_the_stack_is_removed(tmp_path: Path) -> None:
    make_deep_tree(tmp_path / "tree")
    (tmp_path / "tree" / "beside").mkdir()
    with few_frames():
        remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_names_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "tree" / "inner" / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "file").exists()


def test_a_link_in_place_of_the_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "link")
    assert (tmp_path / "kept").is_dir()


def test_a_read_only_directory_is_removed_with_its_files(tmp_path: Path) -> None:
    inner = tmp_path / "tree" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    inner.chmod(0o500)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []
