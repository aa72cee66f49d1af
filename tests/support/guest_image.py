"""A small machine in QEMU: Debian's kernel, busybox and this Python with gpupool, in one archive.

Nothing is downloaded: the parts are packages of the host (`qemu-system-x86`, `linux-image-amd64`,
`busybox-static`) and the interpreter that runs the tests. TCG emulates the processor, so no
virtualisation is needed.
"""

from __future__ import annotations

import base64
import gzip
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib._bootstrap_external import _code_to_timestamp_pyc  # type: ignore[attr-defined]
from pathlib import Path

#: Modules of the kernel that the guest loads, with all that they need.
MODULES = ("nvme", "vfio-pci", "vfio_iommu_type1")
#: Where the archive has Python's modules and gpupool.
LIBRARY = "usr/lib/python"
_LIBRARIES = re.compile(r"(/\S+\.so\S*)")


_PRINT_FILES = (
    "print('\\n'.join(f'{n}\\t{m.__file__}' for n, m in sys.modules.items()"
    " if getattr(m, '__file__', None) and n != '__main__'))"
)


def find_missing_part() -> str:
    """Return why no guest can run here; empty when one can."""
    for program, package in (
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("modprobe", "kmod"),
    ):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    return "" if find_kernel() else "no kernel in /boot: apt-get install linux-image-amd64"


def find_kernel() -> Path | None:
    """Return Debian's newest full kernel that has its modules here."""
    found = []
    for path in Path("/boot").glob("vmlinuz-*-amd64"):
        release = path.name.removeprefix("vmlinuz-")
        # The cloud kernel has no VFIO for devices without interrupts and panics under load.
        if "cloud" not in release and Path("/lib/modules", release).is_dir():
            found.append(path)
    return max(found, default=None)


def build_archive(path: Path, program: Path, imports: Sequence[str]) -> None:
    """Write an archive in which `program` runs as the first process's only child.

    Args:
        program: a Python file.
        imports: modules that the program needs; they are imported here to find their files.
    """
    archive = bytearray()
    for folder in ("bin", "proc", "sys", "dev", "tmp", "lib", "lib64", "mod", "usr", "usr/lib"):
        _add(archive, folder, stat.S_IFDIR | 0o755, b"")
    _add(archive, LIBRARY, stat.S_IFDIR | 0o755, b"")
    _add_file(archive, "bin/busybox", Path(shutil.which("busybox") or ""))
    order = _add_modules(archive, MODULES)
    _add(archive, "order", stat.S_IFREG | 0o644, "\n".join(order).encode() + b"\n")
    _add_python(archive, imports)
    _add(archive, "program.py", stat.S_IFREG | 0o644, program.read_bytes())
    _add(archive, "init", stat.S_IFREG | 0o755, _INIT.encode())
    _add(archive, "TRAILER!!!", 0, b"")
    path.write_bytes(gzip.compress(bytes(archive), compresslevel=1))


_INIT = f"""#!/bin/busybox sh
/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc p /proc
mount -t sysfs s /sys
mount -t devtmpfs d /dev
mount -t tmpfs t /tmp
while read module; do insmod /mod/$module; done < /order
export PYTHONHOME=/usr PYTHONPATH=/{LIBRARY} LD_LIBRARY_PATH=/lib PYTHONDONTWRITEBYTECODE=1
cd /tmp
/bin/python -S /program.py
echo "program ended with $?"
poweroff -f
"""


#: Modules of a guest that shows this machine's files.
HOST_MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay")
_HOST_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc p /proc
while read module; do insmod /mod/$module; done < /order
mkdir -p /host /upper /top
mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro host /host
mount -t tmpfs t /upper
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work o /top
mount -t proc p /top/proc
mount -t sysfs s /top/sys
mount -t devtmpfs d /top/dev
mkdir -p /top/dev/pts /top/dev/shm
mount -t devpts p /top/dev/pts
for place in dev/shm run; do mount -t tmpfs t /top/$place; done
mount -t cgroup2 c /top/sys/fs/cgroup
ip link set lo up
cp /bin/busybox /top/run/busybox
cat >/top/run/init <<'END'
sed -n 's/.*guest.command=//p' /proc/cmdline | base64 -d >/run/command
/bin/sh /run/command
echo "command ended with $?"
/run/busybox poweroff -f
END
# A process whose root was changed by chroot(2) gets no user namespace.
exec switch_root /top /bin/sh /run/init
"""


def build_host_archive(path: Path) -> None:
    """Write an archive whose guest has this machine's files, and cgroups of version 2 alone.

    The files are read over 9p; what the guest writes stays in its memory.
    """
    archive = bytearray()
    for folder in ("bin", "proc", "lib", "mod"):
        _add(archive, folder, stat.S_IFDIR | 0o755, b"")
    _add_file(archive, "bin/busybox", Path(shutil.which("busybox") or ""))
    order = _add_modules(archive, HOST_MODULES)
    _add(archive, "order", stat.S_IFREG | 0o644, "\n".join(order).encode() + b"\n")
    _add(archive, "init", stat.S_IFREG | 0o755, _HOST_INIT.encode())
    _add(archive, "TRAILER!!!", 0, b"")
    path.write_bytes(gzip.compress(bytes(archive), compresslevel=1))


def build_host_command(archive: Path, script: str) -> list[str]:
    """Return QEMU's command line for a guest that runs a shell script on this machine's files."""
    encoded = base64.b64encode(script.encode()).decode()
    words = f"console=ttyS0 quiet no_timer_check panic=-1 guest.command={encoded}"
    command = ["qemu-system-x86_64", "-nodefaults", "-nographic", "-no-reboot"]
    command += ["-serial", "stdio", "-m", "1024", "-machine", "q35", "-accel", "tcg,thread=multi"]
    command += ["-smp", "2", "-cpu", "max", "-kernel", str(find_kernel()), "-initrd", str(archive)]
    command += ["-append", words, "-virtfs"]
    command += ["local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]
    return command


def build_command(archive: Path, devices: Iterable[str]) -> list[str]:
    """Return QEMU's command line for a machine with an IOMMU and further devices."""
    kernel = find_kernel()
    words = "console=ttyS0 quiet intel_iommu=on no_timer_check panic=-1"
    machine = "q35,accel=tcg,kernel-irqchip=split"
    command = ["qemu-system-x86_64", "-nodefaults", "-nographic", "-no-reboot"]
    command += ["-serial", "stdio", "-m", "448", "-machine", machine, "-cpu", "qemu64"]
    command += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
    command += ["-kernel", str(kernel), "-initrd", str(archive), "-append", words]
    for device in devices:
        command += device.split()
    return command


def _add_modules(archive: bytearray, modules: Iterable[str]) -> list[str]:
    kernel = find_kernel()
    release = "" if kernel is None else kernel.name.removeprefix("vmlinuz-")
    order: list[str] = []
    for module in modules:
        listing = subprocess.run(
            ["modprobe", "-S", release, "--show-depends", module],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        for line in listing.splitlines():
            path = Path(line.split()[1])
            # Its processor feature is missing in the guest, and the generic one does as well.
            if path.name not in order and "pclmul" not in path.name:
                order.append(path.name)
                _add_file(archive, f"mod/{path.name}", path)
    return order


def _add_python(archive: bytearray, imports: Sequence[str]) -> None:
    files = _list_module_files(imports)
    libraries: dict[str, Path] = {}
    folders = {LIBRARY}
    for name, source in sorted(files.items()):
        target = _locate_module(name, source)
        for folder in reversed(Path(target).parents):
            if (
                str(folder) not in ("", ".", "usr", "usr/lib", LIBRARY)
                and str(folder) not in folders
            ):
                folders.add(str(folder))
                _add(archive, str(folder), stat.S_IFDIR | 0o755, b"")
        if source.suffix == ".py":
            # Compiled here: the emulated processor would need seconds for it.
            code = compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
            _add(archive, target, stat.S_IFREG | 0o644, bytes(_code_to_timestamp_pyc(code)))
        else:
            _add_file(archive, target, source)
            libraries |= _list_libraries(source)
    python = Path(os.path.realpath(sys.executable))
    _add_file(archive, "bin/python", python)
    libraries |= _list_libraries(python)
    for name, path in libraries.items():
        place = "lib64" if name.startswith("ld-linux") else "lib"
        _add_file(archive, f"{place}/{name}", path)


def _list_module_files(imports: Sequence[str]) -> Mapping[str, Path]:
    """Return the files of all modules that an interpreter has loaded after the imports."""
    program = "; ".join(
        [
            "import sys, site, runpy, pkgutil, encodings.utf_8, encodings.ascii, encodings.latin_1",
            *(f"import {name}" for name in imports),
            _PRINT_FILES,
        ]
    )
    source = importlib.util.find_spec("gpupool")
    path = str(Path(source.origin).parents[1]) if source and source.origin else ""
    listing = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    files = {}
    for line in listing.splitlines():
        name, file = line.split("\t")
        # Python has its own SHA-1 where OpenSSL, which is larger than all the rest, lacks.
        if name != "_hashlib":
            files[name] = Path(file)
    return files


def _locate_module(name: str, source: Path) -> str:
    base = f"{LIBRARY}/{name.replace('.', '/')}"
    if source.name == "__init__.py":
        return f"{base}/__init__.pyc"
    return f"{base}.pyc" if source.suffix == ".py" else f"{LIBRARY}/{source.name}"


def _list_libraries(binary: Path) -> dict[str, Path]:
    listing = subprocess.run(["ldd", str(binary)], stdout=subprocess.PIPE, check=True, text=True)
    found = {}
    for match in _LIBRARIES.finditer(listing.stdout):
        path = Path(match.group(1))
        found[path.name] = path
    return found


def _add_file(archive: bytearray, name: str, source: Path) -> None:
    _add(archive, name, stat.S_IFREG | 0o755, source.read_bytes())


def _add(archive: bytearray, name: str, mode: int, data: bytes) -> None:
    """Append one entry in the format `newc` of cpio."""
    encoded = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    archive += header + encoded
    archive += b"\0" * (-len(archive) % 4)
    archive += data
    archive += b"\0" * (-len(archive) % 4)
