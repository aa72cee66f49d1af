"""The options of `run` and `submit` for a job in a container, and what they make of the request.

Imported before every job, so it imports nothing heavy until a container is asked for.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from gpupool.mechanisms.containers.image_store import StoredImage
    from gpupool.mechanisms.containers.images import LocalImage
    from gpupool.terminal.share_options import Option, ShareOptions

CONTAINER: tuple[Option, ...] = (
    (("--image",), "image", "value", "IMAGE", "run the command in a container of this image"),
    (
        ("--volume",),
        "volume",
        "append",
        "SRC:DST[:ro]",
        "the container sees this directory or file of the node; may be repeated",
    ),
    (("--pull",), "pull", "value", "WHEN", "never or missing: fetch the image (default: never)"),
    (("--user",), "user", "value", "USER", "user in the container (default: the image's)"),
    (
        ("--workdir",),
        "workdir",
        "value",
        "DIR",
        "directory in the container (default: the image's)",
    ),
    (
        ("--env",),
        "env",
        "append",
        "NAME[=VALUE]",
        "variable in the container; without a value this shell's; may be repeated",
    ),
    (
        ("--registry-auth",),
        "registry_auth",
        "value",
        "FILE",
        "file with registry passwords, as podman login writes it",
    ),
)
#: Files that describe several containers.
_COMPOSE = (".yaml", ".yml")


def make_container(
    options: ShareOptions, *, attached: bool, local: bool
) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    """Make the container of a request, and the variables of its command.

    Args:
        options: The options of the command line; at least one is a container's.
        attached: Whether the job takes this terminal.
        local: Whether the job runs on this machine, so that its image can be looked for.

    Raises:
        BadOption: An option has a wrong value.
        ContainersUnavailable: Podman or the account lacks something.
        ImageNotFound: This account has no such image.
    """
    from gpupool.base.errors import BadOption

    if not options.image:
        given = next(flags[0] for flags, dest, *_ in CONTAINER if getattr(options, dest))
        raise BadOption(
            f"{given} without a container", hint=f"add --image IMAGE, or leave out {given}"
        )
    _refuse_compose(options.image)
    pull = options.pull or "never"
    if pull not in ("never", "missing"):
        raise BadOption(f"--pull {pull!r} is not known", hint="one of: never, missing")
    container: dict[str, Any] = {
        "image": options.image,
        "pull": pull,
        "volumes": [_read_volume(text) for text in options.volume],
        "terminal": attached and os.isatty(0) and os.isatty(1),
    }
    for name in ("user", "workdir"):
        if getattr(options, name):
            container[name] = getattr(options, name)
    if options.registry_auth:
        container["registry_auth"] = os.path.abspath(options.registry_auth)
    _check_words(container)
    # Root cannot know the account that the pool runs its jobs as.
    if local and os.geteuid() != 0:
        container |= _find_local_image(options.image, pull)
    return container, _read_variables(options.env)


def _refuse_compose(image: str) -> None:
    from gpupool.base.errors import BadOption

    if image.endswith(_COMPOSE):
        raise BadOption(
            f"--image {image}: a compose file describes several containers with a network between "
            "them; a job is one container",
            hint="submit each service as a job of its own, or as roles of a gang: --gang-file",
        )


def _read_volume(text: str) -> dict[str, Any]:
    from gpupool.base.errors import BadOption

    source, _, rest = text.partition(":")
    target, _, how = rest.partition(":")
    if not source or not target or how not in ("", "ro", "rw"):
        raise BadOption(
            f"--volume {text!r} is not understood", hint="write it like --volume /data/in:/in:ro"
        )
    return {"source": os.path.abspath(source), "target": target, "read_only": how == "ro"}


def _check_words(container: dict[str, Any]) -> None:
    """Check the words as the server does, so that a mistake is found before it is asked."""
    from gpupool.base.errors import BadOption
    from gpupool.model.container import (
        check_container_path,
        check_image,
        check_mount_target,
        check_user,
    )

    try:
        check_image(container["image"])
        for volume in container["volumes"]:
            check_container_path("mount source", volume["source"])
            check_mount_target(volume["target"])
        if "user" in container:
            check_user(container["user"])
        if "workdir" in container:
            check_container_path("--workdir", container["workdir"])
    except ValueError as error:
        raise BadOption(str(error)) from None


def _read_variables(texts: Sequence[str]) -> dict[bytes, bytes]:
    from gpupool.base.errors import BadOption

    found = {}
    for text in texts:
        name, equals, value = os.fsencode(text).partition(b"=")
        if not name:
            raise BadOption(f"--env {text!r} has no name", hint="write it like --env EPOCHS=3")
        if equals:
            found[name] = value
        elif name in os.environb:
            found[name] = os.environb[name]
    return found


def _find_local_image(image: str, pull: str) -> dict[str, str]:
    """Find the image by its name: the job gets that one, whatever the name means later."""
    import pwd

    from gpupool.base.errors import ImageNotFound
    from gpupool.mechanisms.containers.image_store import find_stored_image

    home = pwd.getpwuid(os.geteuid()).pw_dir
    found: StoredImage | LocalImage | None = find_stored_image(home, image)
    if found is None:
        # Imported late: with subprocess it costs 20 ms before every job.
        from gpupool.terminal.account_podman import open_podman

        found = open_podman(os.geteuid(), os.getegid()).find_image(image)
    if found is None and pull == "never":
        raise ImageNotFound(
            f"this account has no image {image}",
            hint="gpupool image load FILE, or let it be fetched: --pull missing; gpupool image "
            "list  shows what is here",
        )
    if found is None:
        return {}
    known = {"image_id": found.image_id}
    if found.digest:
        known["digest"] = found.digest
    return known


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Add what containers of a pool may have, for `up`."""
    parser.add_argument(
        "--allow-image",
        action="append",
        default=[],
        metavar="NAME",
        help="containers may have images of this registry or repository; `local` for all on this "
        "machine; may be repeated (default: local)",
    )
    parser.add_argument(
        "--allow-volume",
        action="append",
        default=[],
        metavar="DIR",
        help="containers may mount this directory, beside their user's home; may be repeated",
    )
