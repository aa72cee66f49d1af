"""Which Podman is found, and what is said where one is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.mechanisms.containers.accounts import MissingPart
from gpupool.mechanisms.containers.podman import (
    PodmanInstallation,
    find_podman,
    parse_version,
)

ALL = ("podman", "newuidmap", "unshare", "crun", "runc")


def machine(*programs: str) -> Callable[[str], str | None]:
    return lambda name: f"/bin/{name}" if name in programs else None


def find(
    *programs: str,
    unified: bool = False,
    said: str = "podman version 4.3.1",
    settings: Path = Path("/nothing"),
) -> PodmanInstallation | MissingPart:
    return find_podman(
        find=machine(*programs), unified=unified, ask=lambda _program: said, settings=settings
    )


def test_runc_serves_a_host_with_cgroup_v1() -> None:
    assert find(*ALL) == PodmanInstallation(
        "/bin/podman", "/bin/unshare", "/bin/runc", (4, 3), False
    )


def test_crun_serves_a_host_with_cgroup_v2_alone() -> None:
    assert find(*ALL, unified=True) == PodmanInstallation(
        "/bin/podman", "/bin/unshare", "/bin/crun", (4, 3), True
    )


@pytest.mark.parametrize(
    ("programs", "unified", "reason", "hint"),
    [
        ((), False, "Podman is not installed", "apt-get install podman uidmap"),
        (("podman", "unshare", "runc"), False, "newuidmap is not", "apt-get install uidmap"),
        (("podman", "newuidmap", "runc"), False, "unshare is not", "apt-get install util-linux"),
        (ALL[:4], False, "runc is not installed; this host has cgroup v1", "apt-get install runc"),
        (
            (*ALL[:3], "runc"),
            True,
            "crun is not installed; this host has cgroup v2",
            "apt-get install crun",
        ),
    ],
)
def test_a_missing_program_is_named_with_its_package(
    programs: tuple[str, ...], unified: bool, reason: str, hint: str
) -> None:
    found = find(*programs, unified=unified)
    assert isinstance(found, MissingPart)
    assert reason in found.reason
    assert found.hint == hint


def test_docker_is_named_with_its_version_and_not_used() -> None:
    found = find("docker", said="Docker version 20.10.24, build 297e128")
    assert isinstance(found, MissingPart)
    assert "Docker 20.10 is, whose daemon" in found.reason
    assert found.hint == "apt-get install podman uidmap"


def test_a_podman_that_is_too_old_is_refused_with_both_versions() -> None:
    found = find(*ALL, said="podman version 3.4.4")
    assert found == MissingPart("Podman 3.4 is too old", "install Podman 4.0 or later")


@pytest.mark.parametrize(
    ("name", "usual"),
    [("user/max_user_namespaces", 65_536), ("kernel/unprivileged_userns_clone", 1)],
)
def test_a_host_without_user_namespaces_is_refused_with_its_setting(
    tmp_path: Path, name: str, usual: int
) -> None:
    setting = tmp_path / name
    setting.parent.mkdir()
    setting.write_text("1\n")
    assert isinstance(find(*ALL, settings=tmp_path), PodmanInstallation)
    setting.write_text("0\n")
    found = find(*ALL, settings=tmp_path)
    assert found == MissingPart(
        f"user namespaces are switched off: {name} is 0", f"sysctl -w {name}={usual}"
    )


def test_a_version_is_read_from_what_the_program_says() -> None:
    assert parse_version("podman version 5.10.0-rc1") == (5, 10)
    assert parse_version("nothing") is None


def test_a_podman_that_fails_once_is_asked_again(tmp_path: Path) -> None:
    podman = tmp_path / "podman"
    podman.write_text(
        f"#!/bin/sh\nmkdir {tmp_path}/asked 2>&- && exit 1\necho podman version 4.3.1\n"
    )
    podman.chmod(0o755)
    programs = machine(*ALL)

    def find_program(name: str) -> str | None:
        return str(podman) if name == "podman" else programs(name)

    def look() -> PodmanInstallation | MissingPart:
        return find_podman(find=find_program, unified=False, settings=Path("/nothing"))

    assert look() == MissingPart("Podman does not say its version", "podman --version")
    found = look()
    assert isinstance(found, PodmanInstallation)
    assert found.version == (4, 3)


def test_a_docker_that_fails_is_named_without_a_version() -> None:
    found = find("docker", said="")
    assert isinstance(found, MissingPart)
    assert "; Docker is, whose daemon" in found.reason
