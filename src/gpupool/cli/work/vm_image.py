"""`gpupool vm image`: the store of read-only disk images."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from gpupool.base.errors import BadOption, NoPermission
from gpupool.cli.work.vm_files import find_pool_paths
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_memory
from gpupool.terminal.output import TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output, one_of
from gpupool.vm.images import ImageStore


def register(parser: CommandParser) -> None:
    parser.about = """
    `import FILE` checks a disk image and copies it into the pool, where it is never written to again. A qcow2 or raw
    file is copied as it is; other formats are converted to qcow2. `list` shows the images. The account of the pool
    imports; every tenant may start VMs from an image.
    """
    parser.examples = [
        "gpupool vm image import debian-12-genericcloud-amd64.qcow2 --name debian-12",
        "gpupool vm image list",
    ]
    parser.add_argument(
        "action", type=one_of("image", "import", "list"), metavar="ACTION", help="import, list"
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="import: the disk image")
    parser.add_argument("--name", metavar="NAME", help="import: its name (default: the file's)")
    add_output(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # The pool's answer to any request also proves that the store is this pool's.
    context.api.request("GET", "whoami")
    store = ImageStore(find_pool_paths(context.api).images)
    if options.action == "import":
        return _import_image(options, store)
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


def _import_image(options: argparse.Namespace, store: ImageStore) -> int:
    if not options.file:
        raise BadOption("which image?", hint="gpupool vm image import FILE")
    try:
        image = store.import_file(Path(options.file).absolute(), options.name)
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
