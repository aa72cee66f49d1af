"""Looks at, lists and loads the images of one account, by that account's Podman. Blocks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from gpupool.mechanisms.containers.accounts import ContainerAccount
from gpupool.mechanisms.containers.argv import (
    build_namespace_words,
    build_podman_environment,
    build_podman_words,
)
from gpupool.mechanisms.containers.podman import PodmanInstallation

#: Seconds for a look at the account's storage, which may be on a slow disk.
_SECONDS: Final = 60
#: Calls to remove a container: the first one fails where Podman's monitor was killed too, since it
#: finds no process to end, and records only then that the container has ended (Podman 4.3.1).
_REMOVALS: Final = 3
#: Seconds for an archive of tens of gigabytes.
_LOAD_SECONDS: Final = 3600


@dataclass(frozen=True)
class LocalImage:
    """An image that an account has.

    Attributes:
        image_id: Digest of its configuration: the same content has the same one everywhere.
        digest: Digest of its manifest, which a registry names it by; empty where it has none.
    """

    name: str
    image_id: str
    digest: str
    size_bytes: int
    created: str


@dataclass(frozen=True)
class PodmanAnswer:
    """What a call of Podman printed and its exit code."""

    code: int
    output: str
    errors: str

    @property
    def reason(self) -> str:
        """The last line of its errors, without Podman's own word for it."""
        lines = [line for line in self.errors.strip().splitlines() if line.strip()]
        return lines[-1].removeprefix("Error: ") if lines else f"exit code {self.code}"


@dataclass(frozen=True)
class AccountPodman:
    """Podman as one account calls it; this process is that account, or root."""

    installation: PodmanInstallation
    account: ContainerAccount

    def call(
        self, *words: str, seconds: int = _SECONDS, source: IO[bytes] | None = None
    ) -> PodmanAnswer:
        """Call Podman and wait for its end. A call that takes too long is killed.

        Args:
            words: Command and options.
            seconds: The longest wait.
            source: What Podman reads as its standard input; None is empty.
        """
        command = [
            *build_namespace_words(self.installation, self.account),
            *build_podman_words(self.installation, self.account),
            *words,
        ]
        try:
            done = subprocess.run(
                command,
                stdin=source or subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
                cwd="/",
                env=self._build_environment(),
                **self._choose_identity(),
            )
        except subprocess.TimeoutExpired:
            return PodmanAnswer(124, "", f"Podman did not end within {seconds} s")
        return PodmanAnswer(done.returncode, done.stdout, done.stderr)

    def find_image(self, name: str) -> LocalImage | None:
        """Find an image by its name; None where the account has none of that name."""
        answer = self.call("image", "inspect", "--format=json", name)
        if answer.code != 0:
            return None
        found = json.loads(answer.output)[0]
        return LocalImage(
            name,
            _with_algorithm(found["Id"]),
            found.get("Digest") or "",
            int(found.get("Size") or 0),
            str(found.get("Created") or ""),
        )

    def list_images(self) -> list[LocalImage]:
        """List every image that has a name, by name."""
        answer = self.call("image", "list", "--format=json", "--no-trunc")
        if answer.code != 0:
            raise OSError(answer.reason)
        found = []
        for entry in json.loads(answer.output or "[]"):
            for name in entry.get("Names") or ():
                found.append(_read_entry(name, entry))
        return sorted(found, key=lambda image: image.name)

    def load_image(self, file: Path) -> PodmanAnswer:
        """Load the images of an archive (OCI or docker-archive), as this process can read it."""
        with open(file, "rb") as source:
            return self.call("load", "--quiet", seconds=_LOAD_SECONDS, source=source)

    def remove_image(self, name: str) -> PodmanAnswer:
        """Remove a name, and the image when it was the last one. A container's image stays."""
        return self.call("image", "rm", name)

    def remove_container(self, name: str) -> PodmanAnswer:
        """End and remove a container. Idempotent."""
        for _ in range(_REMOVALS):
            answer = self.call("rm", "--force", "--ignore", "--time=0", name)
            if answer.code == 0:
                break
        return answer

    def _build_environment(self) -> Mapping[str, str]:
        environment = build_podman_environment(self.account)
        if os.geteuid() == self.account.uid:
            # Where the user's own Podman looks, so must this one.
            for name in ("XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
                if name in os.environ:
                    environment[name] = os.environ[name]
        return environment

    def _choose_identity(self) -> dict[str, Any]:
        if os.geteuid() == self.account.uid:
            return {}
        return {"user": self.account.uid, "group": self.account.gid, "extra_groups": []}


def _read_entry(name: str, entry: Mapping[str, Any]) -> LocalImage:
    created = entry.get("CreatedAt") or entry.get("Created") or ""
    return LocalImage(
        str(name),
        _with_algorithm(str(entry["Id"])),
        str(entry.get("Digest") or ""),
        int(entry.get("Size") or 0),
        str(created),
    )


def _with_algorithm(image_id: str) -> str:
    return image_id if image_id.startswith("sha256:") else f"sha256:{image_id}"
