"""The parts of the cluster rig that need no cluster: what it builds, what it finds again, what it
ends."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cluster import images
from tests.support.cluster.__main__ import parser, settings_of
from tests.support.cluster.build import (
    CACHE_VARIABLE,
    CONTAINERD,
    KUBERNETES,
    SOURCES,
    cache_folder,
    find_go,
)
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control import Settings
from tests.support.cluster.directory import LOCK, ClusterError, Directory
from tests.support.cluster.images import Image, archive
from tests.support.cluster.pki import Authority
from tests.support.cluster.processes import Processes, Program, is_marked, started
from tests.support.cluster.session import ROOT


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    path = tmp_path_factory.mktemp("rig")
    yield Directory(path)
    Cluster(path).down()


def _sleeper(name: str = "sleeper") -> Program:
    return Program(name, [sys.executable, "-c", "import time; time.sleep(600)"], lambda: True)


def test_the_command_line_makes_a_rig_that_pods_and_webhooks_can_use() -> None:
    plain, for_pods = (
        settings_of(parser().parse_args(["up", *more])) for more in ([], ["--for-pods"])
    )
    assert (plain.for_pods, for_pods.for_pods) == (False, True)
    assert replace(for_pods, for_pods=False) == plain == Settings()


def test_versions_come_from_the_committed_modules() -> None:
    assert KUBERNETES.version.startswith("v1.")
    assert CONTAINERD.version.startswith("v2.")
    assert f"gitVersion={KUBERNETES.version}" in KUBERNETES.link_flags
    assert f"Version={CONTAINERD.version}" in CONTAINERD.link_flags


def test_each_program_belongs_to_one_module_that_has_checksums() -> None:
    names = [name for source in SOURCES for name, _ in source.programs]
    assert len(set(names)) == len(names)
    assert all((source.folder / "go.sum").stat().st_size for source in SOURCES)


def test_another_go_has_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert cache_folder("1.26.8") == cache_folder("1.26.8")
    assert cache_folder("1.26.8") != cache_folder("1.26.9")
    assert cache_folder("1.26.8").parent == tmp_path


def test_a_missing_go_is_asked_for_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("tests.support.cluster.build.GO_PLACES", ())
    with pytest.raises(
        ClusterError, match=r"install Go 1\.26\.\d+ or newer from https://go.dev/dl/"
    ):
        find_go()


def test_an_old_go_is_refused_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "go").write_text("#!/bin/sh\necho go1.19.8\n")
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ClusterError, match=r"needs Go 1\.26\.\d+, and .* is 1\.19\.8; install"):
        find_go()


@pytest.fixture
def near() -> Iterator[Path]:
    """A directory whose path is short enough for sockets, wherever a runner keeps the others."""
    with tempfile.TemporaryDirectory(prefix="rig-", dir="/tmp") as place:
        yield Path(place)


def test_a_directory_with_other_things_in_it_is_not_taken(near: Path) -> None:
    (near / "letters").write_text("mine")
    with pytest.raises(ClusterError, match="holds something else"):
        Cluster(near).down()
    assert (near / "letters").read_text() == "mine"


def test_a_directory_too_deep_for_sockets_is_refused_with_its_length(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="the limit is 107"):
        Directory(tmp_path / ("d" * 100))


def test_one_command_at_a_time(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.cluster.directory.LOCK_SECONDS", 0.2)
    with directory.locked(), pytest.raises(ClusterError, match="another command is at work"):
        Directory(directory.path)._lock()


def test_a_port_stays_the_same_for_the_life_of_the_directory(directory: Directory) -> None:
    with directory.locked():
        port = directory.port("api")
        assert Directory(directory.path).port("api") == port
        assert directory.port("etcd") != port


def test_a_program_is_found_again_by_another_process(directory: Directory) -> None:
    with directory.locked():
        Processes(directory).start(_sleeper())
    found = Processes(Directory(directory.path))
    pid = found.pid("sleeper")
    assert pid is not None
    found.start(_sleeper())
    assert found.running() == {"sleeper": pid}


def test_down_ends_programs_and_their_children(directory: Directory) -> None:
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    with directory.locked():
        processes = Processes(directory)
        processes.start(Program("parent", [sys.executable, "-c", parent], lambda: True))
        processes.start(_sleeper())
    Cluster(directory.path).down()
    assert not is_marked(directory.path)
    assert not directory.path.exists()
    Cluster(directory.path).down()


def test_a_program_that_ends_too_soon_shows_its_log(directory: Directory) -> None:
    program = Program("broken", ["/bin/sh", "-c", "echo no such key; exit 3"], lambda: False)
    with (
        directory.locked(),
        pytest.raises(ClusterError, match="broken ended before it was ready:\nno such key"),
    ):
        Processes(directory).run(program)


def test_a_removal_cut_short_is_finished_by_the_next(directory: Directory) -> None:
    with directory.locked():
        (directory / "etcd").mkdir()
    assert [path.name for path in sorted(directory.path.iterdir())] == ["etcd", LOCK]
    Cluster(directory.path).down()
    assert not directory.path.exists()


def test_certificates_are_made_once_and_again_when_cut_short(directory: Directory) -> None:
    with directory.locked():
        authority = Authority(directory)
        first = authority.issue("admin", "admin", "system:masters", ["localhost", "127.0.0.1"])
        content = first.certificate.read_bytes()
        assert Authority(directory).issue("admin", "admin").certificate.read_bytes() == content
        first.certificate.unlink()
        assert authority.issue("admin", "admin").certificate.read_bytes() != content


def test_certificates_are_believed_by_openssl(directory: Directory) -> None:
    with directory.locked():
        authority = Authority(directory)
        leaf = authority.issue("server", "server", names=["127.0.0.1"]).certificate
        command = [
            "openssl",
            "verify",
            "-CAfile",
            str(authority.root.certificate),
            "-verify_ip",
            "127.0.0.1",
            str(leaf),
        ]
        assert (
            subprocess.run(command, capture_output=True, text=True, check=False).stdout
            == f"{leaf}: OK\n"
        )


def test_an_image_names_each_of_its_parts_by_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    monkeypatch.setattr(images, "BUSYBOX", tmp_path / "tool")
    packed = archive(Image("example.test/i:1", files={"/opt/tool": tmp_path / "tool"}))
    assert packed == archive(Image("example.test/i:1", files={"/opt/tool": tmp_path / "tool"}))
    tar = _opened(packed)
    index = json.load(tar.extractfile("index.json"))  # type: ignore[arg-type]
    manifest = json.loads(_blob(tar, index["manifests"][0]))
    layer = _opened(_blob(tar, manifest["layers"][0]))
    assert {"bin/busybox", "bin/sh", "opt/tool"} <= set(layer.getnames())
    assert json.loads(_blob(tar, manifest["config"]))["config"]["Cmd"] == ["/bin/sh"]


def _opened(content: bytes) -> tarfile.TarFile:
    return tarfile.TarFile(fileobj=io.BytesIO(content))


def _blob(tar: tarfile.TarFile, descriptor: dict[str, str]) -> bytes:
    algorithm, digest = descriptor["digest"].split(":")
    file = tar.extractfile(f"blobs/{algorithm}/{digest}")
    assert file is not None
    content = file.read()
    assert hashlib.new(algorithm, content).hexdigest() == digest
    return content


def test_an_image_needs_a_busybox_without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "BUSYBOX", Path(sys.executable).resolve())
    with pytest.raises(ClusterError, match="apt-get install busybox-static"):
        archive(Image("example.test/i:1"))


def test_a_process_is_told_by_its_start_from_one_with_its_number() -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    assert started(child.pid) is not None
    assert started(child.pid) != started(os.getpid())
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert started(child.pid) is None, "a zombie has ended"
    child.communicate()


def test_status_of_no_cluster_says_what_is_not_running(near: Path) -> None:
    command = [sys.executable, "-m", "tests.support.cluster", "status", "--dir", str(near)]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert asked.returncode == 1
    assert asked.stderr.startswith("not running: etcd, kube-apiserver")
