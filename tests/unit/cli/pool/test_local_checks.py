"""The checks of `gpupool doctor` that need no server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpupool.cli.pool import local_checks


def test_the_doctor_finds_other_sharers_by_the_programs_that_run(tmp_path: Path) -> None:
    for pid, line in (
        ("10", b"/usr/bin/nvidia-cuda-mps-control\0-d\0"),
        ("11", b"bash\0"),
        ("self", b"x\0"),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(line)
    found = local_checks.check_sharers(str(tmp_path))
    assert (found["state"], found["text"]) == ("warn", "an MPS daemon (nvidia-cuda-mps-control)")


@pytest.mark.parametrize(("switch", "state"), [("0", "warn"), ("1", "ok"), ("x", "ok")])
def test_user_namespaces_that_are_off_hide_cards_only(
    switch: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "unprivileged_userns_clone").write_text(switch)
    monkeypatch.setattr("os.getuid", lambda: 1000)
    assert local_checks.check_user_namespaces(str(tmp_path))["state"] == state
    monkeypatch.setattr("os.getuid", lambda: 0)
    assert local_checks.check_user_namespaces(str(tmp_path))["text"].startswith("root: ")


@pytest.mark.parametrize(
    ("free", "state"), [((64 << 20) - 1, "fail"), (64 << 20, "warn"), (1 << 30, "ok")]
)
def test_free_space_is_judged_at_the_nearest_parent(
    free: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(f_bavail=free, f_frsize=1)
    monkeypatch.setattr("os.statvfs", lambda _place: found)
    row = local_checks._check_disk(str(tmp_path / "not" / "yet"))
    assert (row["state"], row["text"]) == (state, f"{free >> 20} MiB free at {tmp_path}")
