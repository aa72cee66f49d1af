"""Writes CDI files, by which a container runtime adds devices, mounts and environment to a
container.

Format: Container Device Interface 0.6 (`cncf-tags/container-device-interface`, SPEC.md). The
runtime watches the directory for files that vanish, not for new ones. So a file is written beside
its place, in the same directory, and renamed. Every allocation has a fresh device name, so a stale
copy in the runtime cannot stand for a slot that has another owner now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.resources.names import SLOT as KIND
from gpupool.mechanisms.contract import PreparedAllocation

VERSION = "0.6.0"
PREFIX = "gpupool-"
#: Seconds for a hook. The first reads one file of the image: storage that does not answer ends the
#: start, and the kubelet tries again. The second waits less by itself (native/hook/report.c).
HOOK_SECONDS = 10


def build_device(name: str, prepared: PreparedAllocation) -> dict[str, Any]:
    """The CDI device of one container."""
    own = {"GPUPOOL_FENCE": str(prepared.fence), **prepared.env}
    share = {
        "hostPath": str(prepared.share_dir),
        "containerPath": "/run/gpupool/share",
        "options": _options(False),
    }
    mounts = []
    for one in prepared.mounts:
        mounts.append(
            {
                "hostPath": str(one.source),
                "containerPath": one.target,
                "options": _options(one.writable),
            }
        )
    nodes = [{"path": path, "hostPath": path, "permissions": "rw"} for path in prepared.allow_nodes]
    hooks = []
    for words in (prepared.image_check, prepared.cgroup_report):
        if words:
            hooks.append(_build_hook(words))
    edits: dict[str, Any] = {
        "env": [f"{key}={value}" for key, value in sorted(own.items())],
        "mounts": [share, *mounts],
    }
    # Parts without an entry are left out, as the format's examples do.
    if nodes:
        edits["deviceNodes"] = nodes
    if hooks:
        edits["hooks"] = hooks
    return {"name": name, "containerEdits": edits}


def _build_hook(words: tuple[str, ...]) -> dict[str, Any]:
    # `createRuntime` runs in the host's namespaces as root. Only root may enter the agent's folder,
    # and with user namespaces the container's root is another user there.
    return {
        "hookName": "createRuntime",
        "path": words[0],
        "args": [*words],
        "timeout": HOOK_SECONDS,
    }


def _options(writable: bool) -> list[str]:
    return ["rbind", "nosuid", "nodev", "rw" if writable else "ro"]


def build_document(devices: Mapping[str, Mapping[str, Any]]) -> str:
    """The content of a CDI file for these devices, by name."""
    return json.dumps(
        {"cdiVersion": VERSION, "kind": KIND, "devices": list(devices.values())}, sort_keys=True
    )


def write_slot_file(folder: Path, slot: str, devices: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the slot's file atomically; idempotent.

    Raises:
        CardNotReady: a device of that name had another content before. The runtime may have read
            it, so the file is removed, and the kubelet asks again.
    """
    place = folder / f"{PREFIX}{slot}.json"
    text = build_document(devices)
    before = _read_devices(place)
    for name, device in devices.items():
        if name in before and before[name] != device:
            place.unlink()
            raise CardNotReady(
                f"slot {slot} has other cards than a moment ago; its file is withdrawn"
            )
    made = folder / f"{PREFIX}{slot}.new"
    with open(made, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        # Without it a crash may leave the new name with an empty file.
        os.fsync(file.fileno())
    made.rename(place)


def _read_devices(place: Path) -> dict[str, Any]:
    try:
        return {one["name"]: one for one in json.loads(place.read_text())["devices"]}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {}


def remove_stale_files(folder: Path, older_than: float) -> int:
    """Remove files that no start reads any more, older than the instant `older_than`.

    Each start writes its own file, and the runtime reads a short directory faster.

    Returns:
        The number of removed files.
    """
    removed = 0
    for place in folder.glob(f"{PREFIX}*"):
        try:
            if place.stat().st_mtime < older_than:
                place.unlink()
                removed += 1
        except FileNotFoundError:
            # Another start has just renamed or removed it.
            continue
    return removed
