"""Reads the host's files about MIG: boot, capabilities, and open device nodes.

The kernel shows a capability per GPU instance and per compute instance. To open an instance a
program needs the nodes of both; `mig/config` lets a program change the card's layout and is never
handed out. Sources: NVIDIA MIG user guide, "Device nodes and capabilities".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import ServiceUnavailable

#: Mode of a capability's node where the driver names none: readable by all, as the driver has it.
_NODE_MODE = 0o444
#: Capabilities that change or watch a whole machine's partitions.
_RESERVED = ("config", "monitor")


@dataclass(frozen=True)
class HostFiles:
    """Where this process sees the host.

    Attributes:
        root: the root directory that holds the driver's `proc` and `dev`.
        processes: the proc file system that lists all processes of the host.
    """

    root: Path = Path("/")
    processes: Path = Path("/proc")

    def read_boot(self) -> str:
        """Return what differs after each boot: no instance survives one."""
        return (self.root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@dataclass(frozen=True)
class OpenHandle:
    """A process that has a device node open."""

    pid: int
    name: str
    node: str


def list_instance_nodes(
    host: HostFiles, minor: int, instance: int, compute: int
) -> tuple[str, ...]:
    """Return the two nodes that open an instance, made if they are missing. Idempotent.

    Raises ServiceUnavailable where the driver shows no such capability.
    """
    names = (
        f"gpu{minor}/gi{instance}/access",
        f"gpu{minor}/gi{instance}/ci{compute}/access",
    )
    return tuple(_make_node(host, name, _find_minor(host, name)) for name in names)


def list_closed_nodes(host: HostFiles, minor: int, instance: int) -> tuple[str, ...]:
    """Return the nodes of the card's other possible instances, `config` and `monitor`.

    They are made where they are missing, since a rule can only be set for a node that exists. An
    instance that is created later on the same card is closed by it as well.
    """
    closed = []
    own = f"gpu{minor}/gi{instance}/access"
    for name, number in sorted(_read_minors(host).items(), key=lambda entry: entry[1]):
        parts = name.split("/")
        is_other = len(parts) == 3 and parts[0] == f"gpu{minor}" and name != own
        if is_other or name in _RESERVED:
            closed.append(_make_node(host, name, number))
    return tuple(closed)


def find_open_handles(host: HostFiles, nodes: Iterable[str]) -> tuple[OpenHandle, ...]:
    """Return the processes that have one of these nodes open, without this one, by pid.

    It looks at every process of the host. The driver's own list is not enough: it leaves out
    clients that have opened a card without a context (NVIDIA/DCGM#95). Needs root to see
    processes of others.
    """
    wanted = {}
    for node in nodes:
        identity = _identify(host.root / node.removeprefix("/"))
        if identity is not None:
            wanted[identity] = node
    found = []
    for process in host.processes.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        node = _find_open_node(process, wanted)
        if node:
            found.append(OpenHandle(int(process.name), _read_name(process), node))
    return tuple(sorted(found, key=lambda handle: handle.pid))


def format_handles(handles: Iterable[OpenHandle]) -> str:
    """Return the holders in words: `python (pid 17)`, at most five of them."""
    every = list(handles)
    words = [f"{handle.name} (pid {handle.pid})" for handle in every[:5]]
    more = f" and {len(every) - 5} more" if len(every) > 5 else ""
    return ", ".join(words) + more


def _find_open_node(process: Path, wanted: dict[tuple[int, ...], str]) -> str:
    names = {os.path.basename(node) for node in wanted.values()}
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return ""  # it has ended, or belongs to another account
    for descriptor in descriptors:
        try:
            # Only files of these names are looked at: stat on a dead network mount never returns.
            if os.path.basename(os.readlink(descriptor)) not in names:
                continue
            identity = _identify(descriptor)
        except OSError:
            continue
        if identity in wanted:
            return wanted[identity]
    return ""


def _identify(path: Path) -> tuple[int, ...] | None:
    """Return what tells a node from others under whatever name a container has it."""
    try:
        found = path.stat()
    except OSError:
        return None
    if stat.S_ISCHR(found.st_mode):
        return (found.st_rdev,)
    return found.st_dev, found.st_ino


def _read_name(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"


def _find_minor(host: HostFiles, name: str) -> int:
    """Return the node's number from the instance's own file, else from the driver's table."""
    card, _, rest = name.partition("/")
    path = host.root / "proc/driver/nvidia/capabilities" / card / "mig" / rest
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(":")
            if key == "DeviceFileMinor":
                return int(value)
    except FileNotFoundError:
        pass
    minors = _read_minors(host)
    if name not in minors:
        raise ServiceUnavailable(
            f"the driver shows no capability {name}",
            hint="is /proc/driver/nvidia-caps there? (modprobe nvidia; nvidia-modprobe -m)",
        )
    return minors[name]


def _read_minors(host: HostFiles) -> dict[str, int]:
    """Return the driver's table: `gpu0/gi1/ci0/access` and the number of its node."""
    try:
        text = (host.root / "proc/driver/nvidia-caps/mig-minors").read_text(encoding="ascii")
    except FileNotFoundError:
        return {}
    minors = {}
    for line in text.splitlines():
        name, _, number = line.rpartition(" ")
        if name:
            minors[name] = int(number)
    return minors


def _make_node(host: HostFiles, name: str, minor: int) -> str:
    node = f"/dev/nvidia-caps/nvidia-cap{minor}"
    path = host.root / node.removeprefix("/")
    if path.exists():
        return node
    mode = 0o400 if name in _RESERVED else _NODE_MODE
    path.parent.mkdir(mode=0o755, exist_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | mode, os.makedev(_read_major(host), minor))
        path.chmod(mode)  # whatever the agent's umask
    except FileExistsError:
        return node  # the driver's own tools made it at the same moment
    except PermissionError as problem:
        raise ServiceUnavailable(
            f"{node} is missing and cannot be made: {problem}", hint="run the agent as root"
        ) from problem
    return node


def _read_major(host: HostFiles) -> int:
    devices = host.root / "proc/devices"
    for line in devices.read_text(encoding="ascii").splitlines():
        number, _, name = line.strip().partition(" ")
        if name == "nvidia-caps":
            return int(number)
    raise ServiceUnavailable("the kernel lists no device nvidia-caps in /proc/devices")
