"""Images of a real registry on loopback: what is pulled, with which passwords, and what is not."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpupool.mechanisms.containers.images import AccountPodman
from tests.hosts.container_account import (
    IMAGE,
    AccountPool,
    build_archive,
    find_missing_part,
    make_account,
)
from tests.support.claims import claim_port
from tests.support.supervised import until

PROGRAM = "docker-registry"


def find_lacking() -> str:
    """Why a registry cannot be tested here; empty where it can."""
    if shutil.which(PROGRAM) is None:
        return "no registry: apt-get install docker-registry"
    return find_missing_part()


pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(bool(find_lacking()), reason=find_lacking()),
]
#: htpasswd(1) -B writes such a line: user `ann` with the password `secret`.
PASSWORDS = "ann:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
CARD = ("--gpu", "0.3", "--memory", "2GiB")


@dataclass(frozen=True)
class Registry:
    """A registry that asks for a password.

    Attributes:
        address: Host and port.
        image: An image that it has, with its repository `team`.
        digest: The image's digest.
    """

    address: str
    image: str
    digest: str


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="gpt-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def podman(place: Path) -> Iterator[AccountPodman]:
    (place / "home").mkdir()
    with make_account(place / "home") as made:
        yield made


@pytest.fixture(scope="module")
def registry(place: Path, podman: AccountPodman) -> Iterator[Registry]:
    """A running registry that has the test's image; the account itself has it no more."""
    address = f"127.0.0.1:{claim_port()}"
    (place / "passwords").write_text(PASSWORDS)
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(place / "registry")}},
        "http": {"addr": address},
        "auth": {"htpasswd": {"realm": "test", "path": str(place / "passwords")}},
        "log": {"level": "error"},
    }
    (place / "registry.yml").write_text(json.dumps(settings))  # JSON is YAML
    home = Path(podman.account.home)
    (home / ".config/containers/registries.conf").write_text(
        f'[[registry]]\nlocation = "{address}"\ninsecure = true\n'
    )
    auth = {"auths": {address: {"auth": base64.b64encode(b"ann:secret").decode()}}}
    write_private(home / "auth.json", json.dumps(auth), podman)
    server = subprocess.Popen(
        [PROGRAM, "serve", str(place / "registry.yml")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: is_up(address), "the registry")
        (place / "image").mkdir()
        assert podman.load_image(build_archive(podman, place / "image")).code == 0
        image = f"{address}/team/train:1"
        words = (f"--authfile={home}/auth.json", f"--digestfile={home}/digest")
        pushed = podman.call("push", "--quiet", *words, IMAGE, f"docker://{image}")
        assert pushed.code == 0, pushed
        assert podman.remove_image(IMAGE).code == 0
        yield Registry(address, image, (home / "digest").read_text())
    finally:
        server.kill()
        server.wait()


def write_private(path: Path, text: str, podman: AccountPodman) -> None:
    path.write_text(text)
    path.chmod(0o600)
    os.chown(path, podman.account.uid, podman.account.gid)


def is_up(address: str) -> bool:
    try:
        urllib.request.urlopen(f"http://{address}/v2/", timeout=5)
    except urllib.error.HTTPError as answer:
        return answer.code == 401
    except OSError:
        return False
    return False


class PullingPool(AccountPool):
    """A pool whose containers may pull from the repository `team`."""

    allowed = ""

    def up(self, *words: str) -> str:
        return super().up(*words, "--allow-image", "local", "--allow-image", self.allowed)


@pytest.fixture(scope="module")
def pool(place: Path, podman: AccountPodman, registry: Registry) -> Iterator[AccountPool]:
    made = PullingPool(place / "pool", podman)
    made.allowed = f"{registry.address}/team"
    with made:
        yield made


def list_images(podman: AccountPodman) -> list[str]:
    return [image.name for image in podman.list_images()]


def test_without_a_password_nothing_is_pulled_and_the_reason_is_the_registrys(
    pool: AccountPool, podman: AccountPodman, registry: Registry
) -> None:
    words = (*CARD, "--image", registry.image, "--pull", "missing", "--name", "locked")
    done = pool.type("run", *words, "--", "true")
    assert done.returncode == 125
    assert "authentication required" in done.stderr
    assert list_images(podman) == []


def test_an_image_that_is_not_here_is_pulled_with_the_password_once(
    pool: AccountPool, podman: AccountPodman, registry: Registry
) -> None:
    auth = f"{podman.account.home}/auth.json"
    words = (*CARD, "--image", registry.image, "--pull", "missing", "--registry-auth", auth)
    done = pool.type("run", *words, "--", "probe")
    assert (done.returncode, done.stdout) == (0, "2048 2\n"), done.stderr
    assert list_images(podman) == [registry.image]
    # It is here now: neither password nor registry is asked for.
    again = pool.type("run", *CARD, "--image", registry.image, "--", "echo-nothing")
    assert again.returncode == 127


def test_a_digest_names_what_is_pulled(
    pool: AccountPool, podman: AccountPodman, registry: Registry
) -> None:
    podman.call("rmi", "--all", "--force")
    auth = f"{podman.account.home}/auth.json"
    name = f"{registry.address}/team/train@{registry.digest}"
    words = (*CARD, "--image", name, "--pull", "missing", "--registry-auth", auth)
    assert pool.type("run", *words, "--", "true").returncode == 0
    other = f"{registry.address}/team/train@sha256:{'0' * 64}"
    words = (*CARD, "--image", other, "--pull", "missing", "--registry-auth", auth)
    done = pool.type("run", *words, "--", "true")
    assert done.returncode == 125
    assert "manifest unknown" in done.stderr


def test_what_the_administrator_did_not_allow_is_not_asked_for(
    pool: AccountPool, registry: Registry
) -> None:
    other = f"{registry.address}/teamster/train:1"
    done = pool.type("run", *CARD, "--image", other, "--pull", "missing", "--", "true")
    assert done.returncode == 3
    assert f"GP-2061: image {other} may not be pulled" in done.stderr
