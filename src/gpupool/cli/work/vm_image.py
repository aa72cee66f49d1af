"""`gpupool vm image`: the store of read-only disk images."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import asdict
from pathlib import Path

from gpupool.base.errors import BadOption, NoPermission
from gpupool.base.ids import check_name
from gpupool.base.units import MIB, parse_memory
from gpupool.cli.work.vm_files import find_pool_paths
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_memory
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output, one_of
from gpupool.vm.image_recipe import (
    LARGEST_DISK_BYTES,
    SMALLEST_DISK_BYTES,
    USUAL_SUITE,
    ImageRecipe,
)
from gpupool.vm.images import ImageStore

#: Of a package or a suite (Debian policy, 5.6.1); nothing that a program could take as an option.
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.:-]{0,127}")


def register(parser: CommandParser) -> None:
    parser.about = """
    `import FILE` checks a disk image and copies it into the pool, where it is never written to again. A qcow2 or raw
    file is copied as it is; other formats are converted to qcow2. `build` makes an image of Debian with an SSH server
    and cloud-init from the packages of an archive, as root, in some minutes. `list` shows the images. The account of
    the pool imports and builds; every tenant may start VMs from an image.
    """
    parser.examples = [
        "gpupool vm image import debian-12-genericcloud-amd64.qcow2 --name debian-12",
        "gpupool vm image build",
        "gpupool vm image build --mirror /srv/debian --include git --disk 16GiB --name build",
        "gpupool vm image list",
    ]
    parser.add_argument(
        "action",
        type=one_of("image", "build", "import", "list"),
        metavar="ACTION",
        help="build, import, list",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="import: the disk image")
    parser.add_argument(
        "--name", metavar="NAME", help="import, build: its name (default: the file's; debian-SUITE)"
    )
    parser.add_argument(
        "--suite",
        default=USUAL_SUITE,
        metavar="SUITE",
        help=f"build: release of Debian (default: {USUAL_SUITE})",
    )
    parser.add_argument(
        "--mirror", metavar="URL", help="build: archive of packages, or a directory that is one"
    )
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="build: one more package; may be repeated",
    )
    parser.add_argument(
        "--disk", default="4GiB", metavar="SIZE", help="build: size of the disk (default: 4GiB)"
    )
    add_output(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # The pool's answer to any request also proves that the store is this pool's.
    context.api.request("GET", "whoami")
    store = ImageStore(find_pool_paths(context.api).images)
    if options.action == "import":
        return _store_image(store, Path(_require_file(options)), options.name)
    if options.action == "build":
        return _build_image(options, store)
    rows = [{**asdict(image), "path": str(store.locate(image))} for image in store.list_images()]
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=lambda: ("name", "digest", "format", "disk_bytes", "file_bytes", "path"),
        empty="no images",
        color=context.color,
    )
    return 0


def _require_file(options: argparse.Namespace) -> str:
    if not options.file:
        raise BadOption("which image?", hint="gpupool vm image import FILE")
    return str(options.file)


def _build_image(options: argparse.Namespace, store: ImageStore) -> int:
    # Here, because every `gpupool vm run` would wait for it.
    from gpupool.vm.image_build import build_image, check_build

    recipe = build_recipe(options)
    name = check_name(options.name or f"debian-{recipe.suite}", "image")
    store.check_name_free(name)
    check_build(store.root)
    with build_image(recipe, store.root, print_notice) as path:
        return _store_image(store, path, name)


def build_recipe(options: argparse.Namespace) -> ImageRecipe:
    """Build the recipe from the options. Raises BadOption, BadQuantity."""
    for word in (options.suite, *options.include):
        if not _PACKAGE.fullmatch(word):
            raise BadOption(
                f"{word!r} is no name of a release or a package",
                hint="--suite bookworm --include git",
            )
    mirror = options.mirror
    if mirror is not None and "://" not in mirror:
        if not Path(mirror, "dists").is_dir():
            raise BadOption(
                f"--mirror {mirror}: there is no directory dists in it, which each archive has",
                hint="--mirror http://deb.debian.org/debian, or the path of a copy of it",
            )
        mirror = str(Path(mirror).absolute())
    disk_bytes = parse_memory(options.disk) // MIB * MIB
    if not SMALLEST_DISK_BYTES <= disk_bytes <= LARGEST_DISK_BYTES:
        raise BadOption(f"--disk {options.disk}: a disk has 2 GiB to 2 TiB", hint="--disk 4GiB")
    return ImageRecipe(options.suite, mirror, tuple(options.include), disk_bytes)


def _store_image(store: ImageStore, path: Path, name: str | None) -> int:
    try:
        image = store.import_file(path.absolute(), name)
    except PermissionError as error:
        raise NoPermission(
            f"the store of images is the pool's: {error.strerror}",
            hint="the account that started the pool imports images",
        ) from None
    sys.stdout.write(f"{image.name} sha256:{image.digest}\n")
    return 0


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("FORMAT", lambda row: row["format"]),
    TableColumn("DISK", lambda row: describe_memory(row["disk_bytes"]), right=True),
    TableColumn("FILE", lambda row: describe_memory(row["file_bytes"]), right=True),
    TableColumn("SHA-256", lambda row: row["digest"][:12]),
    TableColumn("PATH", lambda row: row["path"], wide=True),
)
