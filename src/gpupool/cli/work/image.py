"""`gpupool image`: load, list and remove container images, without a registry and without a pool."""

from __future__ import annotations

import argparse
import os
import pwd
import sys
from pathlib import Path

from gpupool.base.errors import BadInput, BadOption, ImageNotFound, RequestRejection
from gpupool.base.units import MIB
from gpupool.mechanisms.containers.images import AccountPodman, LocalImage
from gpupool.terminal.account_podman import open_podman
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output

FIELDS = ("name", "image_id", "digest", "size_bytes", "created")


def register(parser: CommandParser) -> None:
    parser.about = """
    Images belong to a Unix account, as Podman keeps them. `load` reads an archive that `podman save` or `docker save`
    wrote, so that a machine needs no registry.
    """
    parser.examples = [
        "gpupool image load train.tar",
        "gpupool image list",
        "sudo gpupool image load train.tar --account alice",
        "gpupool image remove localhost/train:1",
    ]
    parser.add_verbs()
    load = parser.add_verb("load", "load the images of an archive; stdout has their names")
    load.add_argument("file", metavar="FILE", help="as podman save or docker save wrote it")
    listing = parser.add_verb("list", "images that have a name")
    removal = parser.add_verb("remove", "remove a name, and the image with its last name")
    removal.add_argument("image", metavar="IMAGE", help="a name as `image list` shows it")
    for verb in (load, listing, removal):
        verb.add_argument("--account", metavar="NAME", help="another Unix account's (root)")
    add_output(listing)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    podman = _open_account(options.account)
    if options.verb == "load":
        return _load_image(podman, options.file)
    if options.verb == "remove":
        return _remove_image(podman, options.image)
    return _list_images(podman, options.output, context)


def _open_account(name: str | None) -> AccountPodman:
    if name is None:
        return open_podman(os.geteuid(), os.getegid())
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise BadOption(f"--account {name}: this machine has no such account") from None
    if os.geteuid() not in (0, entry.pw_uid):
        raise BadOption(f"--account {name}: only root loads images for another account")
    return open_podman(entry.pw_uid, entry.pw_gid)


def _load_image(podman: AccountPodman, file: str) -> int:
    if not os.path.isfile(file):
        raise BadInput(f"{file}: no such file", hint="podman save -o FILE IMAGE  writes one")
    answer = podman.load_image(Path(file))
    if answer.code != 0:
        raise RequestRejection(
            f"{file} could not be loaded: {answer.reason}",
            hint="it must be an archive of podman save or docker save",
        )
    for line in answer.output.splitlines():
        sys.stdout.write(f"{line.removeprefix('Loaded image: ')}\n")
    return 0


def _remove_image(podman: AccountPodman, name: str) -> int:
    if podman.find_image(name) is None:
        raise ImageNotFound(
            f"this account has no image {name}", hint="gpupool image list  shows what is here"
        )
    answer = podman.remove_image(name)
    if answer.code != 0:
        raise RequestRejection(
            f"{name} could not be removed: {answer.reason}",
            hint="a job that runs in it keeps it: gpupool ps",
        )
    return 0


def _list_images(podman: AccountPodman, output: str, context: CommandContext) -> int:
    rows = []
    for image in podman.list_images():
        rows.append({name: getattr(image, name) for name in FIELDS})
    columns = [
        TableColumn("IMAGE", lambda row: row["name"]),
        TableColumn("ID", lambda row: row["image_id"].removeprefix("sha256:")[:12]),
        TableColumn("SIZE", lambda row: f"{row['size_bytes'] // MIB} MiB"),
        TableColumn("DIGEST", lambda row: row["digest"], wide=True),
    ]
    print_list(
        rows,
        columns,
        output,
        fields=lambda: list(LocalImage.__dataclass_fields__),
        empty="no image is here; gpupool image load FILE  brings one",
        color=context.color,
    )
    return 0
