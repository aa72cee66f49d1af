"""Build an image of Debian with an SSH server and cloud-init, from packages of an archive.

`mmdebstrap` installs the packages into a directory, `mke2fs` makes a file system of it inside a
sparse file, and `qemu-img` makes an image of that. No disk of this host and no loop device is used.
Everything is below one directory, which is removed at the end and after Ctrl-C.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpupool.base.errors import VmRejection
from gpupool.base.files.kernel_files import read_kernel_lines
from gpupool.base.files.trees import remove_tree
from gpupool.base.units import format_mib
from gpupool.model.vm import GIB
from gpupool.vm import image_recipe
from gpupool.vm.disk import convert_image, find_program
from gpupool.vm.image_recipe import ImageRecipe, build_boot_record, build_bootstrap_command

#: Programs, with the package to name where one is missing.
PROGRAMS: Final = {
    image_recipe.BOOTSTRAP: "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "qemu-img": "qemu-utils",
}
#: The installed files with their downloads, the file system, the image and its copy in the store take
#: 0.7 to 1 GiB each with the usual packages.
NEEDED_BYTES: Final = 4 * GIB
#: Of the directory of a build, which the build has locked.
PREFIX: Final = ".build-"
#: Files of a store: an image by its digest, its facts, and what an import was writing.
_OF_STORE: Final = re.compile(r"[0-9a-f]{64}\.[a-z0-9]+|\.import-\d+")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_GRUB: Final = "usr/lib/grub/i386-pc"


def check_build(store: Path) -> None:
    """Raise VmRejection where an image cannot be built here; nothing is changed."""
    if os.geteuid() != 0:
        raise VmRejection(
            "an image is built by root: its files belong to many accounts",
            hint="build it as root, or gpupool vm image import FILE",
        )
    for program, package in PROGRAMS.items():
        find_program(program, package)
    place = store
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < NEEDED_BYTES:
        raise VmRejection(
            f"{place} has {format_mib(free)} free; building an image takes "
            f"{format_mib(NEEDED_BYTES)}, most of it for a few minutes",
            hint="free some space, or build it on another machine and import it",
        )


@contextmanager
def build_image(recipe: ImageRecipe, store: Path, report: Callable[[str], None]) -> Iterator[Path]:
    """Build an image; give its path, and remove it and all that was made at the end.

    Blocks for minutes. What `mmdebstrap` says goes to standard error.

    Args:
        recipe: What is built.
        store: A directory on the file system that has the room.
        report: Called with each step, for people.

    Raises:
        VmRejection: A program failed.
    """
    store.mkdir(mode=0o755, parents=True, exist_ok=True)
    _remove_leftovers(store)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=store))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.chmod(0o755)  # apt downloads as an account of its own
        root = folder / "root"
        report(f"1 of 4: packages of {recipe.suite} from {recipe.mirror or 'the Debian archive'}")
        _run(build_bootstrap_command(recipe, root))
        report("2 of 4: boot loader and settings")
        _write_settings(root)
        core = _build_grub(root)
        report("3 of 4: file system")
        raw = folder / "disk.raw"
        _write_disk(raw, root, core, recipe.disk_bytes)
        _remove_tree(root)
        report("4 of 4: image")
        image = folder / "disk.qcow2"
        convert_image(raw, image)
        raw.unlink()
        yield image
    finally:
        os.close(lock)
        _remove_tree(folder)


def remove_store(store: Path) -> None:
    """Remove all images of a store, and the directory unless another program's files are in it.

    Raises:
        VmRejection: A build runs there, or something is mounted below it; the images are kept.
    """
    _remove_leftovers(store)
    if any(store.glob(f"{PREFIX}*")):
        raise VmRejection(
            f"an image is being built in {store}, so it was not removed",
            hint="end the build with Ctrl-C, then repeat this",
        )
    for path in list(store.iterdir()):
        if _OF_STORE.fullmatch(path.name):
            path.unlink()
    if not any(store.iterdir()):
        store.rmdir()


def _remove_leftovers(store: Path) -> None:
    """Remove what builds left that were killed; a build that runs holds its lock."""
    for folder in store.glob(f"{PREFIX}*"):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
        _remove_tree(folder)


def _write_settings(root: Path) -> None:
    (root / "etc/fstab").write_text(image_recipe.FSTAB, encoding="ascii")
    (root / "etc/hostname").write_text("debian\n", encoding="ascii")
    (root / "etc/cloud/cloud.cfg.d/90_gpupool.cfg").write_text(
        image_recipe.CLOUD_INIT, encoding="ascii"
    )
    (root / "etc/default/locale").write_text("LANG=C.UTF-8\n", encoding="ascii")
    (root / "boot/grub").mkdir(exist_ok=True)
    (root / "boot/grub/grub.cfg").write_text(image_recipe.GRUB_CONFIG, encoding="ascii")
    # Made anew in each guest: two guests with one key or one identity could pass for each other.
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/machine-id").write_text("uninitialized\n", encoding="ascii")
    services = ("systemd-networkd", "systemd-resolved", "ssh")
    _run(["chroot", str(root), "systemctl", "enable", "--quiet", *services])


def _build_grub(root: Path) -> bytes:
    """Build GRUB's second stage with the program of the image itself."""
    command = ["chroot", str(root), "grub-mkimage", "-O", "i386-pc", "-o", "/boot/grub/core.img"]
    command += ["-p", "(hd0,msdos1)/boot/grub", *image_recipe.GRUB_MODULES]
    _run(command)
    return (root / "boot/grub/core.img").read_bytes()


def _write_disk(raw: Path, root: Path, core: bytes, disk_bytes: int) -> None:
    room = image_recipe.PARTITION_OFFSET - image_recipe.SECTOR
    if len(core) > room:
        raise VmRejection(f"GRUB has {len(core)} bytes; before the partition there are {room}")
    boot_code = (root / _GRUB / "boot.img").read_bytes()
    with open(raw, "wb") as disk:
        disk.truncate(disk_bytes)
        disk.write(build_boot_record(boot_code, disk_bytes))
        disk.write(core)
    blocks = (disk_bytes - image_recipe.PARTITION_OFFSET) // 1024
    options = f"offset={image_recipe.PARTITION_OFFSET}"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", image_recipe.ROOT_LABEL, "-d", str(root)]
    _run([*command, "-E", options, str(raw), f"{blocks}k"])


def _run(command: Sequence[str]) -> None:
    """Run a program in sight of the user. After Ctrl-C it is waited for: it unmounts what it has."""
    program = find_program(command[0], PROGRAMS.get(command[0], command[0]))
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    # What it prints is for people; standard output has the image's name alone.
    with subprocess.Popen(
        [program, *command[1:]], stdin=subprocess.DEVNULL, stdout=2, env=environment
    ) as process:
        try:
            status = process.wait()
        except BaseException:
            # A terminal has sent Ctrl-C to it as well; another sender has not.
            process.terminate()
            process.wait()
            raise
    if status != 0:
        raise VmRejection(
            f"{command[0]} ended with status {status}; what it printed is above",
            hint="gpupool vm image build --mirror URL  takes the packages from another archive",
        )


def _remove_tree(folder: Path) -> None:
    """Remove a directory, unless something is mounted below it: it would be emptied as well."""
    for line in read_kernel_lines(_MOUNTS):
        if Path(line.split(" ")[4]).is_relative_to(folder):
            raise VmRejection(
                f"{line.split(' ')[4]} is still mounted, so {folder} was not removed",
                hint=f"umount {line.split(' ')[4]}; rm -r {folder}",
            )
    if folder.exists():
        remove_tree(folder)
