"""The state directory: one pool at a time, only our own, nothing of anybody else's removed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import PoolAlreadyRunning, StateNewer, StateUnusable
from gpupool.base.settings import PoolPaths
from gpupool.host.settings.options import parse_options
from gpupool.host.state.directory import (
    PoolMarker,
    StateDir,
    find_running_pid,
    read_marker,
    remove_state,
)
from gpupool.host.state.startup import choose_marker
from tests.support.deep_trees import few_frames, make_deep_tree


def opened(root: Path, **marker: object) -> StateDir:
    state = StateDir(root)
    known = state.open()
    state.write_marker(replace(known or PoolMarker("p-test"), **marker))  # type: ignore[arg-type]
    return state


def test_a_marker_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = {
        "sim": "2x8xH200",
        "listeners": ("127.0.0.1:1",),
        "store": "postgresql://x",
        "labels": ("a:rack=r1",),
    }
    state = opened(tmp_path / "s", **written)
    assert read_marker(state.paths) == PoolMarker("p-test", **written)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ("a.pem", "a.key", False)),
        (["--listen", ":2"], ("a.pem", "a.key", False)),
        (["--tls-cert", "b.pem", "--tls-key", "b.key"], ("b.pem", "b.key", False)),
        (["--insecure-http"], (None, None, True)),
    ],
)
def test_start_options_keep_tls_unless_plain_http_is_named(
    words: list[str], expected: tuple[object, ...]
) -> None:
    known = PoolMarker("p", listeners=(":1",), tls_cert="a.pem", tls_key="a.key")
    found = choose_marker(known, parse_options(["--state-dir", "/s", *words])[1])
    assert (found.tls_cert, found.tls_key, found.insecure_http) == expected


def test_leave_for_plain_http_holds_for_its_own_listeners_only() -> None:
    known = PoolMarker("p", listeners=(":1",), insecure_http=True)
    assert choose_marker(known, parse_options(["--state-dir", "/s"])[1]).insecure_http
    assert not choose_marker(
        known, parse_options(["--state-dir", "/s", "--listen", ":2"])[1]
    ).insecure_http


@pytest.mark.parametrize(
    ("words", "expected"), [([], True), (["--standby"], True), (["--no-standby"], False)]
)
def test_a_standby_stays_one_until_it_is_told_otherwise(
    words: list[str], *, expected: bool
) -> None:
    known = PoolMarker("p", store="postgresql://gpupool@db/gpupool", standby=True)
    assert choose_marker(known, parse_options(["--state-dir", "/s", *words])[1]).standby is expected


def test_a_second_pool_on_the_same_state_is_told_who_holds_it(tmp_path: Path) -> None:
    first = opened(tmp_path / "s")
    with pytest.raises(PoolAlreadyRunning, match=r"pid \d+"):
        StateDir(tmp_path / "s").open()
    assert find_running_pid(first.paths) is not None
    first.close()
    assert find_running_pid(first.paths) is None
    StateDir(tmp_path / "s").open()


def test_a_directory_of_a_newer_layout_is_left_alone(tmp_path: Path) -> None:
    state = opened(tmp_path / "s")
    state.close()
    text = json.dumps({"pool_id": "p", "layout": 99, "unheard_of": 1})
    state.paths.marker.write_text(text)
    with pytest.raises(StateNewer, match="layout 99"):
        StateDir(tmp_path / "s").open()
    assert state.paths.marker.read_text() == text


def test_a_marker_of_a_later_version_with_the_same_layout_is_understood(tmp_path: Path) -> None:
    root = tmp_path / "s"
    root.mkdir()
    (root / "pool.json").write_text(json.dumps({"pool_id": "p", "layout": 2, "more": True}))
    assert read_marker(PoolPaths(root)) == PoolMarker("p")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pool_id": "p"}'])
def test_a_damaged_marker_is_said_and_nothing_is_guessed(tmp_path: Path, text: str) -> None:
    root = tmp_path / "s"
    root.mkdir()
    (root / "pool.json").write_text(text)
    with pytest.raises(StateUnusable):
        StateDir(root).open()


def test_a_directory_with_somebody_elses_files_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StateUnusable, match="no state directory"):
        StateDir(tmp_path).open()
    with pytest.raises(StateUnusable, match="nothing was removed"):
        remove_state(PoolPaths(tmp_path))
    assert (tmp_path / "thesis.tex").exists()


def test_removing_takes_what_is_ours_and_leaves_the_rest(tmp_path: Path) -> None:
    root = tmp_path / "s"
    state = opened(root)
    (root / "gpupool.db").write_text("x")
    (root / ".123.sock").write_text("")
    (root / "agent" / "jobs").mkdir()
    (root / "images").mkdir()
    (root / "images" / f"{'a' * 64}.qcow2").write_text("x")
    (root / "notes.txt").write_text("mine")
    removed = remove_state(state.paths)
    assert [path.name for path in root.iterdir()] == ["notes.txt"]
    assert removed[-1].endswith("pool.json")
    (root / "notes.txt").unlink()


def test_removing_takes_directories_that_a_job_made_inside_one_another(tmp_path: Path) -> None:
    state = opened(tmp_path / "s")
    job = tmp_path / "s" / "agent" / "jobs" / "j-1"
    job.mkdir(parents=True)
    make_deep_tree(job / "run")
    with few_frames():
        remove_state(state.paths)
    assert not (tmp_path / "s").exists()


def test_removing_an_own_directory_whole_and_a_second_time_is_fine(tmp_path: Path) -> None:
    state = opened(tmp_path / "s")
    assert str(tmp_path / "s") in remove_state(state.paths)
    assert not (tmp_path / "s").exists()
    assert remove_state(state.paths) == []


def test_a_directory_with_images_of_an_earlier_pool_can_be_a_state_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "holiday.jpg").write_text("x")
    remove_state(opened(tmp_path).paths)
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["holiday.jpg"]
