"""The checks of a server's own process, at their bounds."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.server import checks


@pytest.mark.parametrize(("used", "state"), [(79, "ok"), (80, "warn"), (94, "warn"), (95, "fail")])
def test_open_files_warn_before_they_fail(
    used: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    monkeypatch.setattr("os.listdir", lambda _: ["0"] * used)
    found = checks.descriptors_check()
    assert (found.state, found.text) == (state, f"{used} of 100 open files used")


def test_open_files_that_cannot_be_counted_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> list[str]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("os.listdir", refuse)
    assert checks.descriptors_check().state == "fail"


@pytest.mark.parametrize(
    ("free", "state"),
    [
        (checks.NO_SPACE_BYTES - 1, "fail"),
        (checks.NO_SPACE_BYTES, "warn"),
        (checks.LOW_SPACE_BYTES, "ok"),
    ],
)
def test_space_warns_before_it_fails(
    free: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    found = checks.space_check(tmp_path)()
    assert (found.state, found.text) == (state, f"{free >> 20} MiB free at {tmp_path}")


@pytest.mark.parametrize(
    ("ahead", "state", "says"),
    [
        (1.0, "ok", "the books follow the wall clock"),
        (2.0, "warn", "the books run 2 s ahead"),
        (-1.0, "ok", "the books follow the wall clock"),
        (-2.0, "warn", "the books are 2 s behind"),
    ],
)
def test_a_clock_may_differ_by_a_second(
    ahead: float, state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock: Any = SimpleNamespace(ahead_ns=lambda: int(ahead * 1e9))
    found = checks.clock_check(clock)()
    assert found.state == state
    assert says in found.text


def test_silent_nodes_are_named_up_to_five() -> None:
    names = [f"n{number}" for number in range(6)]
    assert checks.nodes_check(list)().state == "ok"
    assert "silent: n0, n1, n2, n3, n4; their" in checks.nodes_check(lambda: names[:5])().text
    found = checks.nodes_check(lambda: names)()
    assert (found.state, "silent: n0, n1, n2, n3, n4, …; their" in found.text) == ("fail", True)
