"""Find out whether this host runs guests by hardware virtualization.

The device node is not trusted: on a host that is itself a guest (PVM, a cloud without nested
virtualization) `/dev/kvm` opens, makes machines and runs a few instructions, and firmware never
gets to its end. So a disk of one sector is booted by the real firmware, with a limit of seconds.
The answer is kept until the host boots again or another QEMU is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpupool.base.durable import open_replacement

KVM_NODE: Final = Path("/dev/kvm")
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: Seconds for a guest that takes 0.2 s where virtualization works.
LIMIT_SECONDS: Final = 5.0
RECORD: Final = "vm-accelerator.json"
_VERSION: Final = 1
#: mov dx, 0xf4; mov al, 0x10; out dx, al; hlt; jmp to the hlt. Port 0xf4 is isa-debug-exit.
_CODE: Final = bytes((0xBA, 0xF4, 0x00, 0xB0, 0x10, 0xEE, 0xF4, 0xEB, 0xFD))
#: With room behind it: SeaBIOS reads no boot sector from a disk of one sector.
_SECTOR: Final = (_CODE.ljust(510, b"\0") + b"\x55\xaa").ljust(1 << 20, b"\0")
#: isa-debug-exit ends QEMU with the status (value << 1) | 1.
_BOOTED: Final = (0x10 << 1) | 1

#: The first VMs of a host may start at once: a second probe would take the disk of the first away,
#: and its wrong answer would be kept until the next boot.
_probing = threading.Lock()


@dataclass(frozen=True)
class AcceleratorChoice:
    """How VMs run on this host.

    Attributes:
        name: `kvm` or `tcg`.
        why: Why it is not `kvm`; empty with `kvm`.
    """

    name: str
    why: str = ""


def choose_accelerator(
    state_dir: Path, qemu: str, *, node: Path = KVM_NODE, boot_id: Path = BOOT_ID
) -> AcceleratorChoice:
    """Return how VMs run here. Blocks for `LIMIT_SECONDS` at most, once after each boot."""
    if not node.exists():
        return AcceleratorChoice("tcg", f"there is no {node}")
    key = _make_key(qemu, node, boot_id)
    with _probing:
        kept = _read_record(state_dir / RECORD, key)
        if kept is not None:
            return kept
        choice = _probe_node(state_dir, qemu, node)
        content = {"version": _VERSION, "key": key, **asdict(choice)}
        with open_replacement(state_dir / RECORD, mode=0o644) as file:
            file.write(json.dumps(content).encode())
        return choice


def build_probe(qemu: str, sector: str, accelerator: str) -> Sequence[str]:
    """Build the command of the guest that ends itself with a status that only it can give."""
    processor = "host" if accelerator == "kvm" else "max"
    return (
        *(qemu, "-no-user-config", "-nodefaults", "-display", "none"),
        *("-machine", "q35", "-accel", accelerator, "-cpu", processor, "-m", "64M"),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=0x4"),
        *("-drive", f"file={sector},format=raw,if=none,id=disk,readonly=on"),
        *("-device", "virtio-blk-pci,drive=disk,bootindex=1"),
    )


def boot_probe(directory: Path, qemu: str, accelerator: str, seconds: float = LIMIT_SECONDS) -> str:
    """Boot the guest. Returns why it did not come to its end; empty when it did."""
    sector = directory / "vm-probe.img"
    sector.write_bytes(_SECTOR)
    try:
        # The file's name is relative: a comma in the directory would end an option of QEMU.
        done = subprocess.run(
            build_probe(qemu, sector.name, accelerator),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a guest of 9 instructions did not run within {seconds:g} s"
    finally:
        sector.unlink(missing_ok=True)
    if done.returncode == _BOOTED:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1][:200] if lines else f"QEMU ended with status {done.returncode}"


def _probe_node(directory: Path, qemu: str, node: Path) -> AcceleratorChoice:
    if not os.access(node, os.R_OK | os.W_OK):
        return AcceleratorChoice(
            "tcg", f"this account may not open {node}: usermod -aG kvm USER gives it access"
        )
    problem = boot_probe(directory, qemu, "kvm")
    if problem:
        return AcceleratorChoice("tcg", f"{node} is there but does not work: {problem}")
    return AcceleratorChoice("kvm")


def _make_key(qemu: str, node: Path, boot_id: Path) -> str:
    found = os.stat(qemu)
    access = os.access(node, os.R_OK | os.W_OK)
    boot = boot_id.read_text(encoding="ascii").strip()
    return f"{boot} {qemu} {found.st_size} {found.st_mtime_ns} {access}"


def _read_record(path: Path, key: str) -> AcceleratorChoice | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] == _VERSION and found["key"] == key:
            return AcceleratorChoice(found["name"], found["why"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # It is only a cache: what cannot be read is found out again.
        return None
    return None
