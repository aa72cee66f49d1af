"""A small guest for tests: a kernel of the distribution and an initial file system with busybox.

The guest prints a line when it is up, obeys its power button, and repeats what is typed on its
console. The archive is written here (format `newc`, Documentation/driver-api/early-userspace).
"""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

BOOT = Path("/boot")
MODULES = Path("/lib/modules")
#: What the guest prints when it is up.
UP = "guest is up"
#: No clock check: the timer of an emulated processor is late on a busy machine, and the kernel
#: stops there.
#: On the kernel's command line: the guest prints the memory regions of all its PCI functions.
SHOW_REGIONS = "show-regions"
APPEND = "console=ttyS0 quiet no_timer_check panic=-1"
#: A boot sector that prints its text on the first serial port and halts: it has no power button.
_SECTOR_CODE = bytes.fromhex("31c08ed8be157cbaf803ac84c07403eeebf8f4ebfd")
_NEEDED = ("button", "evdev")
_INIT = f"""#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox insmod /button.ko
/bin/busybox insmod /evdev.ko
for name in /sys/class/input/event*/device/name; do
  read -r what <$name
  event=${{name#/sys/class/input/}}
  # The first 24 bytes are one event.
  [ "$what" = "Power Button" ] && (
    /bin/busybox head -c 24 /dev/input/${{event%%/*}} >/dev/null
    echo powering off
    /bin/busybox poweroff -f
  ) &
done
case "$(/bin/busybox cat /proc/cmdline)" in
  *{SHOW_REGIONS}*) /bin/busybox cat /sys/bus/pci/devices/*/resource ;;
esac
echo {UP}
while read -r line; do echo "heard: $line"; done
/bin/busybox sleep 100000
"""


@dataclass(frozen=True)
class TestKernel:
    """A kernel that is installed here, and its modules."""

    __test__ = False

    image: Path
    modules: Path


def find_kernel() -> TestKernel | str:
    """Return the newest kernel that is installed here, or why there is none."""
    for image in sorted(BOOT.glob("vmlinuz-*"), reverse=True):
        modules = MODULES / image.name.removeprefix("vmlinuz-")
        if modules.is_dir():
            return TestKernel(image, modules)
    return "no kernel below /boot: apt-get install linux-image-amd64"


def find_missing_part() -> str:
    """Return what these tests lack here; empty where nothing is missing."""
    if shutil.which("qemu-system-x86_64") is None or shutil.which("qemu-img") is None:
        return "no QEMU: apt-get install qemu-system-x86 qemu-utils"
    if _find_busybox() is None:
        return "no static busybox: apt-get install busybox-static"
    kernel = find_kernel()
    return kernel if isinstance(kernel, str) else ""


def make_boot_disk() -> bytes:
    """A disk of 1 MiB whose guest prints that it is up, 0.1 s after its start, and halts."""
    sector = (_SECTOR_CODE + UP.encode() + b"\r\n\0").ljust(510, b"\0") + b"\x55\xaa"
    return sector.ljust(1 << 20, b"\0")


def write_initramfs(
    path: Path, init: str = _INIT, modules: Sequence[str] = _NEEDED, **scripts: str
) -> None:
    """Write the guest's initial file system.

    Args:
        init: The program that its kernel starts.
        modules: Those of the kernel that it loads.
        scripts: More programs, by the names below `/bin`.
    """
    kernel = find_kernel()
    busybox = _find_busybox()
    assert isinstance(kernel, TestKernel)
    assert busybox is not None
    files: list[tuple[str, int, bytes]] = []
    for name in ("bin", "dev", "proc", "sys"):
        files.append((name, 0o040755, b""))
    files.append(("bin/busybox", 0o100755, busybox.read_bytes()))
    files.append(("init", 0o100755, init.encode()))
    for name, text in scripts.items():
        files.append((f"bin/{name}", 0o100755, text.encode()))
    for name in modules:
        files.append((f"{name}.ko", 0o100644, _read_module(kernel.modules, name)))
    with open(path, "wb") as archive:
        for part in _format_entries(files):
            archive.write(part)


def _find_busybox() -> Path | None:
    found = shutil.which("busybox")
    if found is None:
        return None
    # A program that is linked dynamically does not run without its libraries.
    return Path(found) if b"ld-linux" not in Path(found).read_bytes()[:4096] else None


def _read_module(modules: Path, name: str) -> bytes:
    plain = next(modules.rglob(f"{name}.ko"), None)
    if plain is not None:
        return plain.read_bytes()
    packed = next(modules.rglob(f"{name}.ko.xz"))
    return lzma.decompress(packed.read_bytes())


def _format_entries(files: list[tuple[str, int, bytes]]) -> Iterator[bytes]:
    for number, (name, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        encoded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        yield _pad(head)
        yield _pad(content)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
