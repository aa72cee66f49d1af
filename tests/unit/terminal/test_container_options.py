"""What the options of a container make of the request."""

from __future__ import annotations

import pwd
from typing import Any

import pytest

from gpupool.base.errors import BadOption, ContainersUnavailable, ImageNotFound
from gpupool.mechanisms.containers.accounts import MissingPart
from gpupool.mechanisms.containers.images import LocalImage
from gpupool.terminal import account_podman
from gpupool.terminal.container_options import make_container
from gpupool.terminal.share_options import make_blank_options, make_job_body

ID = "sha256:" + "a" * 64


def options(**given: Any) -> Any:
    made = make_blank_options("run")
    for name, value in {"command": ["train"], **given}.items():
        setattr(made, name, value)
    return made


def make(**given: Any) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    return make_container(options(**given), attached=False, local=False)


def test_a_container_has_its_mounts_and_only_the_variables_that_were_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FROM_SHELL", "x=y")
    monkeypatch.delenv("ABSENT", raising=False)
    container, environ = make(
        image="a:1",
        volume=["/data/:/in:ro", "/out:/out"],
        user="1000",
        workdir="/work",
        env=["EPOCHS=3", "FROM_SHELL", "ABSENT"],
    )
    assert container == {
        "image": "a:1",
        "pull": "never",
        "volumes": [
            {"source": "/data", "target": "/in", "read_only": True},
            {"source": "/out", "target": "/out", "read_only": False},
        ],
        "terminal": False,
        "user": "1000",
        "workdir": "/work",
    }
    assert environ == {b"EPOCHS": b"3", b"FROM_SHELL": b"x=y"}


def test_the_command_is_not_looked_for_on_this_machine() -> None:
    given = options(image="a:1", command=["only-in-the-image"], env=["A=b"], no_fence=False)
    body = make_job_body(given, attached=False, local=False)
    assert body["launch"]["argv"] == ["only-in-the-image"]
    assert body["launch"]["env"] == {"A": "b"}
    assert body["launch"]["container"]["image"] == "a:1"


def test_a_job_without_a_container_says_nothing_of_one() -> None:
    body = make_job_body(options(command=["true"]), attached=False, local=False)
    assert "container" not in body["launch"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"volume": ["/a:/b"]}, "--volume without a container"),
        ({"env": ["A=b"]}, "--env without a container"),
        ({"image": "compose.yaml"}, "a compose file describes several containers"),
        ({"image": "A B"}, "image: got 'A B'"),
        ({"image": "a:1", "pull": "always"}, "--pull 'always' is not known"),
        ({"image": "a:1", "volume": ["/a"]}, "--volume '/a' is not understood"),
        ({"image": "a:1", "volume": ["/a:/b:rox"]}, "is not understood"),
        ({"image": "a:1", "volume": ["/a:b"]}, "mount target: got 'b'"),
        ({"image": "a:1", "volume": ["/a:/proc"]}, "mount target: got '/proc'"),
        ({"image": "a:1", "user": "a b"}, "user: got 'a b'"),
        ({"image": "a:1", "workdir": "work"}, "--workdir: got 'work'"),
        ({"image": "a:1", "env": ["=x"]}, "--env '=x' has no name"),
    ],
)
def test_a_mistake_is_refused_before_the_pool_is_asked(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        make(**given)


class FakeAccountPodman:
    def __init__(self, image: LocalImage | None) -> None:
        self.image = image

    def find_image(self, _name: str) -> LocalImage | None:
        return self.image


def local(monkeypatch: pytest.MonkeyPatch, image: LocalImage | None, **given: Any) -> Any:
    monkeypatch.setattr("os.geteuid", lambda: pwd.getpwnam("nobody").pw_uid)
    monkeypatch.setattr(account_podman, "open_podman", lambda *_: FakeAccountPodman(image))
    return make_container(options(image="a:1", **given), attached=False, local=True)[0]


def test_the_image_of_that_name_is_recorded_by_its_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    found = local(monkeypatch, LocalImage("a:1", ID, "sha256:" + "b" * 64, 1, ""))
    assert (found["image_id"], found["digest"]) == (ID, "sha256:" + "b" * 64)


def test_an_image_that_is_not_here_is_refused_unless_it_may_be_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ImageNotFound, match="this account has no image a:1") as refused:
        local(monkeypatch, None)
    assert "gpupool image load FILE" in refused.value.hint
    assert "image_id" not in local(monkeypatch, None, pull="missing")


def test_a_missing_podman_is_an_error_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = MissingPart("Podman is not installed", "apt-get install podman uidmap")
    monkeypatch.setattr(account_podman, "find_podman", lambda: missing)
    with pytest.raises(ContainersUnavailable, match="Podman is not installed") as refused:
        account_podman.open_podman(1001, 1001)
    assert refused.value.hint == "apt-get install podman uidmap"
