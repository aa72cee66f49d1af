"""The unit of systemd: its words survive systemd's own parser, and its sandbox is that of its kind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpupool.delivery.unit import is_ours, quote_word, write_unit

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian: systemd)"
)


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("--listen", "--listen"),
        ("zone=z1", "zone=z1"),
        ("two words", '"two words"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ("a;b", '"a;b"'),
        ("", '""'),
    ],
)
def test_a_word_is_quoted_for_systemd(word: str, quoted: str) -> None:
    assert quote_word(word) == quoted


@needs_analyze
@pytest.mark.parametrize("is_standby", [False, True], ids=["with-cards", "standby"])
def test_systemd_accepts_the_unit(tmp_path: Path, is_standby: bool) -> None:
    state_dir = tmp_path / "a state $x 50%"
    program = tmp_path / "gpupool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "gpupool.service"
    text = write_unit(str(program), str(state_dir), ["--sim", "4xL40S"], is_standby=is_standby)
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # The check above must be one that finds something.
    unit.write_text(text.replace("KillMode=process", "KillMode=everything"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Failed to parse kill mode" in done.stderr


def test_a_pool_with_cards_gets_nothing_that_its_jobs_could_not_bear() -> None:
    text = write_unit("/usr/bin/gpupool", "/var/lib/gpupool", [], is_standby=False)
    settings = [line for line in text.splitlines() if not line.startswith("#")]
    # A mount namespace hides the mounts of jobs from the next server; these close devices or sudo.
    for name in (
        "Protect",
        "Private",
        "ReadWritePaths",
        "NoNewPrivileges",
        "Restrict",
        "DeviceAllow",
    ):
        assert not [line for line in settings if line.startswith(name)]
    for line in ("KillMode=process", "OOMPolicy=continue", "TasksMax=infinity", "Type=notify"):
        assert line in settings
    assert "ExecStart=/usr/bin/gpupool --state-dir /var/lib/gpupool up" in settings
    assert is_ours(text)


def test_a_path_has_no_variables_and_a_command_line_has() -> None:
    text = write_unit("/usr/bin/gpupool", "/srv/$a 5%", ["--standby"], is_standby=True)
    assert 'ReadWritePaths="/srv/$a 5%%"' in text
    assert 'RequiresMountsFor="/srv/$a 5%%"' in text
    assert '--state-dir "/srv/$$a 5%%" up --standby' in text


def test_a_standby_is_closed_but_for_its_state_directory() -> None:
    text = write_unit("/usr/bin/gpupool", "/srv/a b", ["--standby"], is_standby=True)
    for line in ("ProtectSystem=strict", 'ReadWritePaths="/srv/a b"', "NoNewPrivileges=yes"):
        assert line in text.splitlines()
    assert not is_ours("[Unit]\nDescription=mine\n")
