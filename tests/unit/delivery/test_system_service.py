"""The unit is put into place, found again and removed by the real systemctl, below another root."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import pytest

from gpupool.base.errors import BadOption, ForeignUnit, NoPermission, SystemdUnusable
from gpupool.cli.pool import system_service
from gpupool.delivery.system_service import ServiceState, SystemService
from gpupool.delivery.unit import write_unit
from gpupool.terminal.context import CommandContext

pytestmark = pytest.mark.skipif(
    shutil.which("systemctl") is None, reason="needs systemctl (Debian: systemd)"
)
TEXT = write_unit("/usr/bin/gpupool", "/var/lib/gpupool", [], is_standby=False)
LINK = "etc/systemd/system/multi-user.target.wants/gpupool.service"


def make_options(root: Path, **settings: object) -> argparse.Namespace:
    given = {"standby": None, "store": None, "system_root": str(root), "yes": True, **settings}
    return argparse.Namespace(**given)


def test_install_enables_the_unit_and_remove_leaves_nothing(tmp_path: Path) -> None:
    service = SystemService(tmp_path)
    assert service.read_state() == ServiceState(None, False, "--")
    service.install(TEXT)
    assert service.read_state() == ServiceState(TEXT, True, "--")
    assert (tmp_path / LINK).is_symlink()
    assert service.path.stat().st_mode & 0o777 == 0o644
    service.install(TEXT)
    service.remove()
    assert service.read_state() == ServiceState(None, False, "--")
    assert not (tmp_path / LINK).is_symlink()
    service.remove()


def test_a_run_that_was_cut_off_before_enabling_is_finished(tmp_path: Path) -> None:
    service = SystemService(tmp_path)
    service.path.parent.mkdir(parents=True)
    service.path.write_text(TEXT)
    state = service.read_state()
    assert not state.is_enabled
    assert system_service.plan_up(service, state, TEXT, None) == [
        "enable gpupool.service: it starts with this machine"
    ]
    service.install(TEXT)
    assert system_service.plan_up(service, service.read_state(), TEXT, None) == []


def test_a_unit_of_a_person_stays_as_it_is(tmp_path: Path) -> None:
    service = SystemService(tmp_path)
    service.path.parent.mkdir(parents=True)
    service.path.write_text("[Service]\nExecStart=/bin/true\n")
    with pytest.raises(ForeignUnit, match="it stays as it is"):
        service.check_own(service.read_state())


def test_without_systemd_the_service_is_refused_with_a_way_on(tmp_path: Path) -> None:
    with pytest.raises(SystemdUnusable, match="does not run this machine") as caught:
        SystemService(Path("/"), booted=tmp_path / "not-booted").check_usable()
    assert "gpupool up -d" in caught.value.hint


def test_what_systemctl_says_of_a_failure_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemdUnusable, match="no program systemctl"):
        SystemService(tmp_path).check_usable()
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\necho 'Failed to enable: disk full' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(SystemdUnusable, match="Failed to enable: disk full"):
        SystemService(tmp_path).disable()


def test_the_command_writes_below_a_root_and_changes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(system_service, "find_program", lambda: Path("/opt/gpupool/bin/gpupool"))
    context = CommandContext(str(tmp_path / "state"))
    options = make_options(tmp_path)
    assert system_service.run_up(options, context, ["--listen", ":8443"]) == 0
    said = capsys.readouterr().out
    assert f"will write {tmp_path}/etc/systemd/system/gpupool.service" in said
    assert "will enable gpupool.service" in said
    written = SystemService(tmp_path).path.read_text()
    assert f"ExecStart=/opt/gpupool/bin/gpupool --state-dir {tmp_path}/state up --listen" in written
    assert system_service.run_up(options, context, ["--listen", ":8443"]) == 0
    assert "nothing to change" in capsys.readouterr().out
    assert system_service.run_up(options, context, []) == 0
    assert "will replace" in capsys.readouterr().out


def test_a_standby_gets_its_state_directory_before_its_sandbox_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(system_service, "find_program", lambda: Path("/opt/gpupool/bin/gpupool"))
    options = make_options(tmp_path, standby=True, store="postgresql://pool@db/gpupool")
    assert system_service.run_up(options, CommandContext("/srv/standby"), ["--standby"]) == 0
    assert (tmp_path / "srv" / "standby").stat().st_mode & 0o777 == 0o711
    written = SystemService(tmp_path).path.read_text()
    assert "ReadWritePaths=/srv/standby\n" in written


def test_a_password_does_not_get_into_a_unit_that_all_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    options = make_options(tmp_path, store="postgresql://pool:secret@db/gpupool")
    with pytest.raises(BadOption, match="every account can read a unit") as caught:
        system_service.run_up(options, CommandContext("/srv/pool"), [])
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "etc").exists()


def test_another_account_than_root_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoPermission, match="needs root"):
        system_service.run_up(make_options(tmp_path), CommandContext(str(tmp_path)), [])
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize(
    ("text", "is_enabled", "activity", "state", "part"),
    [
        (None, False, "inactive", "ok", "not a service of this machine"),
        (TEXT.replace("/usr/bin/gpupool", "/bin/sh"), True, "active", "ok", "enabled, active"),
        (TEXT.replace("/usr/bin/gpupool", "/bin/sh"), False, "active", "warn", "does not start"),
        (TEXT.replace("/usr/bin/gpupool", "/bin/sh"), True, "failed", "fail", "has failed"),
        (TEXT.replace("/usr/bin/gpupool", "/no/x"), True, "active", "fail", "/no/x, which is not"),
    ],
    ids=["none", "well", "disabled", "failed", "no-program"],
)
def test_the_doctor_says_how_the_service_is(
    text: str | None, is_enabled: bool, activity: str, state: str, part: str
) -> None:
    row = system_service.describe_service(SystemService(), ServiceState(text, is_enabled, activity))
    assert row["state"] == state
    assert part in row["text"]
