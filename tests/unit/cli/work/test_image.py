"""`gpupool image`, with the answers of Podman played."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli.main import main
from gpupool.cli.work import image as command
from gpupool.mechanisms.containers.accounts import ContainerAccount, IdRange
from gpupool.mechanisms.containers.images import AccountPodman, PodmanAnswer
from gpupool.mechanisms.containers.podman import PodmanInstallation

IDS = IdRange(100_000, 65_536)
ACCOUNT = ContainerAccount("ann", 1001, 1001, "/home/ann", IDS, IDS)
PODMAN = PodmanInstallation("/bin/podman", "/bin/unshare", "/sbin/runc", (4, 3), False)
LISTED = [
    {
        "Id": "b" * 64,
        "Names": ["localhost/b:1", "localhost/a:2"],
        "Size": 5 << 20,
        "Digest": "sha256:1",
    },
    {"Id": "c" * 64, "Names": None, "Size": 1},
]


class PlayedPodman(AccountPodman):
    """Answers as Podman 4.3.1 does; remembers what it was called with."""

    answer = PodmanAnswer(0, json.dumps(LISTED), "")
    calls: list[tuple[str, ...]] = []  # noqa: RUF012  emptied by the fixture

    def call(self, *words: str, **_settings: Any) -> PodmanAnswer:
        self.calls.append(words)
        return self.answer


@pytest.fixture(autouse=True)
def podman(monkeypatch: pytest.MonkeyPatch) -> type[PlayedPodman]:
    monkeypatch.setattr(command, "open_podman", lambda *_: PlayedPodman(PODMAN, ACCOUNT))
    monkeypatch.setattr(PlayedPodman, "calls", [])
    return PlayedPodman


def test_images_are_listed_by_each_of_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "IMAGE          ID            SIZE",
        "localhost/a:2  bbbbbbbbbbbb  5 MiB",
        "localhost/b:1  bbbbbbbbbbbb  5 MiB",
    ]
    assert main(["image", "list", "-o", "json"]) == 0
    (first, _) = json.loads(capsys.readouterr().out)
    assert (first["image_id"], first["size_bytes"]) == ("sha256:" + "b" * 64, 5 << 20)


def test_loading_prints_the_names_alone(
    tmp_path: Path,
    podman: type[PlayedPodman],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(podman, "answer", PodmanAnswer(0, "Loaded image: localhost/a:1\n", ""))
    (tmp_path / "a.tar").touch()
    assert main(["image", "load", str(tmp_path / "a.tar")]) == 0
    assert capsys.readouterr().out == "localhost/a:1\n"
    assert podman.calls == [("load", "--quiet")]


def test_a_file_that_is_no_archive_is_refused_with_podmans_reason(
    tmp_path: Path,
    podman: type[PlayedPodman],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = PodmanAnswer(
        125, "", "x\nError: payload does not match any of the supported formats\n"
    )
    monkeypatch.setattr(podman, "answer", answer)
    (tmp_path / "a.tar").touch()
    assert main(["image", "load", str(tmp_path / "a.tar")]) == 3
    said = capsys.readouterr().err
    assert "a.tar could not be loaded: payload does not match" in said
    assert "podman save" in said


def test_removing_calls_podman_once_the_name_is_there(
    podman: type[PlayedPodman], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podman, "answer", PodmanAnswer(0, json.dumps(LISTED), ""))
    assert main(["image", "remove", "localhost/a:2"]) == 0
    assert podman.calls[-1] == ("image", "rm", "localhost/a:2")
    assert capsys.readouterr().out == ""


def test_removing_an_image_that_is_not_here_removes_nothing(
    podman: type[PlayedPodman], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podman, "answer", PodmanAnswer(125, "", "Error: image not known"))
    assert main(["image", "remove", "localhost/z:1"]) == 3
    assert "GP-2060: this account has no image localhost/z:1" in capsys.readouterr().err
    assert [words[1] for words in podman.calls] == ["inspect"]


def test_a_missing_file_and_a_missing_account_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["image", "load", "/nothing.tar"]) == 2
    assert "/nothing.tar: no such file" in capsys.readouterr().err
    assert main(["image", "list", "--account", "no-such-account"]) == 2
    assert "no such account" in capsys.readouterr().err


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="plays another account")
def test_only_root_looks_at_another_accounts_images(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1001)
    assert main(["image", "list", "--account", "nobody"]) == 2
    assert "only root" in capsys.readouterr().err
