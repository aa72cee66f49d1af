"""What a container job may ask for, and what an administrator lets it have.

Rules of an image's name, of a mounted directory and of the pool's container policy. A submission is
checked against them, so that a node refuses nothing that the server accepted. Pure: looks at no
image and no file.

`gpupool run --image` imports this module before every job, so it imports no `dataclasses`, whose
`inspect` alone takes 5 ms.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

#: PATH_MAX without its NUL, bytes.
LONGEST_PATH: Final = 4095
#: Characters of an image's name: registries accept 255 before the tag, and a digest takes 72.
LONGEST_IMAGE: Final = 400
#: Mounts of one container that a caller may ask for.
MOST_VOLUMES: Final = 64
#: Word of the policy for every image that is on the machine already.
LOCAL: Final = "local"
#: What a mount may not cover: the job's share and its driver are there.
RESERVED: Final = ("/run/gpupool", "/proc", "/sys", "/dev")

_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REGISTRY: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?"
#: `[REGISTRY/]NAME[/NAME...][:TAG][@DIGEST]` as the OCI distribution specification has it.
_IMAGE: Final = re.compile(
    rf"(?:{_REGISTRY}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?"
    r"(?:@sha256:[0-9a-f]{64})?"
)
_PREFIX: Final = re.compile(rf"{_REGISTRY}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?")
#: `NAME`, `UID`, `NAME:GROUP`, `UID:GID` as Podman's `--user` reads it.
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
#: Podman reads a mount as comma-separated fields, so these cannot be in a path.
_NOT_IN_PATHS: Final = re.compile(r'[,:"\x00-\x1f\x7f]')


def check_image(name: str) -> None:
    """Raise ValueError for a text that cannot be an image's name."""
    if not 0 < len(name) <= LONGEST_IMAGE or not _IMAGE.fullmatch(name):
        raise ValueError(
            f"image: got {name[:80]!r}, expected a name like registry.example/team/train:1.2"
        )


def check_container_path(what: str, path: str) -> None:
    """Raise ValueError for a path that cannot be mounted or entered."""
    if not path.startswith("/") or len(path.encode()) > LONGEST_PATH:
        raise ValueError(f"{what}: got {path[:80]!r}, expected an absolute path")
    if _NOT_IN_PATHS.search(path):
        raise ValueError(
            f"{what}: got {path[:80]!r}, expected a path without comma, colon, quotation mark or "
            "control character"
        )
    if posixpath.normpath(path) != path:
        raise ValueError(
            f"{what}: got {path[:80]!r}, expected {posixpath.normpath(path)[:80]!r}, without '..', "
            "'.' or a double slash"
        )


def check_mount_target(path: str) -> None:
    """Raise ValueError for a place in the container where no directory may be mounted."""
    check_container_path("mount target", path)
    if path == "/" or any(is_below(path, place) for place in RESERVED):
        raise ValueError(
            f"mount target: got {path[:80]!r}, expected a path outside {', '.join(RESERVED)} and "
            "not /"
        )


def check_user(user: str) -> None:
    """Raise ValueError for a text that names no user of a container."""
    if not _USER.fullmatch(user):
        raise ValueError(f"user: got {user[:80]!r}, expected NAME, UID or UID:GID")


def is_below(path: str, place: str) -> bool:
    """Whether a path is that place or lies below it. Both are normal and absolute."""
    return place == "/" or path == place or path.startswith(f"{place}/")


class ContainerPolicy(NamedTuple):
    """What an administrator lets containers have.

    Attributes:
        images: `local` for images that are on the machine, and names of registries, repositories or
            images that may also be pulled.
        volumes: Directories that a job may mount beside its user's home directory.
        own_pool: The pool runs every job as its own user, so every directory may be mounted.
    """

    images: tuple[str, ...] = (LOCAL,)
    volumes: tuple[str, ...] = ()
    own_pool: bool = False

    def explain_image_refusal(self, image: str, pull: str) -> str:
        """Return why an image may not run; empty when it may."""
        full = qualify_image(image)
        names = [entry for entry in self.images if entry != LOCAL]
        if any(_has_prefix(full, entry) for entry in names):
            return ""
        allowed = ", ".join(self.images) or "none"
        if pull != "never":
            return f"image {image} may not be pulled; allowed here: {allowed}"
        if LOCAL not in self.images:
            return f"image {image} may not run; allowed here: {allowed}"
        return ""

    def explain_volume_refusal(self, source: str, home: str) -> str:
        """Return why a directory may not be mounted; empty when it may.

        Args:
            source: The directory, with every symbolic link resolved.
            home: The home directory of the job's account; empty where it has none.
        """
        places = [place for place in (home, *self.volumes) if place and place != "/"]
        if self.own_pool or any(is_below(source, place) for place in places):
            return ""
        return f"{source} may not be mounted; allowed here: {', '.join(places) or 'none'}"


#: Where an administrator said nothing.
USUAL_POLICY: Final = ContainerPolicy()


def qualify_image(image: str) -> str:
    """Return an image's name with its registry: `localhost` where it names none."""
    first, slash, _ = image.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return image if has_registry else f"localhost/{image}"


def parse_container_policy(
    images: Iterable[str], volumes: Iterable[str], *, own_pool: bool
) -> ContainerPolicy:
    """Make the policy from what an administrator typed. Raises ValueError.

    No images: local ones only.
    """
    entries = tuple(images)
    for entry in entries:
        if entry != LOCAL and not _PREFIX.fullmatch(entry):
            raise ValueError(
                f"got {entry[:80]!r}, expected {LOCAL} or a registry or repository like "
                "registry.example/team"
            )
    places = tuple(volumes)
    for place in places:
        check_container_path("directory", place)
    return ContainerPolicy(entries or USUAL_POLICY.images, places, own_pool)


def _has_prefix(image: str, entry: str) -> bool:
    # `registry.example/team` allows `registry.example/team/a` and not `registry.example/teamster`.
    return image == entry or (image.startswith(entry) and image[len(entry)] in "/:@")
