"""CDI files: how a container runtime learns of devices, mounts and environment just before it makes a container.

Format: Container Device Interface 0.6 (`cncf-tags/container-device-interface`, SPEC.md). The runtime watches the folder
and sees the vanishing of a file's old name, not the coming of a new one: so a file is written beside its place, in the
same folder, and renamed. The name of a device is fresh for every allocation, so that a stale copy of the folder in the
runtime can never answer for a slot that has another owner now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.names import SLOT as KIND
from gpupool.mechanisms.contract import Prepared

VERSION = "0.6.0"
PREFIX = "gpupool-"
HOOK_SECONDS = 10
"""It reads one file; an image on a storage that does not answer ends the start, and the kubelet tries again."""


def device(name: str, prepared: Prepared) -> dict[str, Any]:
    """One container's device: what it is started with."""
    own = {"GPUPOOL_FENCE": str(prepared.fence), **prepared.env}
    share = {"hostPath": str(prepared.share_dir), "containerPath": "/run/gpupool/share", "options": _options(False)}
    mounts = [
        {"hostPath": str(one.source), "containerPath": one.target, "options": _options(one.writable)}
        for one in prepared.mounts
    ]
    nodes = [{"path": path, "hostPath": path, "permissions": "rw"} for path in prepared.allow_nodes]
    hooks = [_hook(prepared.image_check)] if prepared.image_check else []
    edits = {"env": [f"{key}={value}" for key, value in sorted(own.items())], "mounts": [share, *mounts]}
    some = {"deviceNodes": nodes, "hooks": hooks}
    return {"name": name, "containerEdits": {**edits, **{key: value for key, value in some.items() if value}}}


def _hook(words: tuple[str, ...]) -> dict[str, Any]:
    """As root of the host, who alone may enter the agent's folder, also where the container's root is nobody there."""
    return {"hookName": "createRuntime", "path": words[0], "args": [*words], "timeout": HOOK_SECONDS}


def _options(writable: bool) -> list[str]:
    return ["rbind", "nosuid", "nodev", "rw" if writable else "ro"]


def document(devices: Mapping[str, Mapping[str, Any]]) -> str:
    """The file for these devices, by name."""
    return json.dumps({"cdiVersion": VERSION, "kind": KIND, "devices": list(devices.values())}, sort_keys=True)


def write(folder: Path, slot: str, devices: Mapping[str, Mapping[str, Any]]) -> None:
    """The slot's file, whole or not at all; twice is once.

    Raises CardNotReady where a device of that name said something else before: the runtime may have read it, so it is
    withdrawn, and the kubelet asks again.
    """
    place, text = folder / f"{PREFIX}{slot}.json", document(devices)
    before = _read(place)
    if any(name in before and before[name] != one for name, one in devices.items()):
        place.unlink()
        raise CardNotReady(f"slot {slot} has other cards than a moment ago; its file is withdrawn")
    made = folder / f"{PREFIX}{slot}.new"
    with open(made, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    made.rename(place)


def _read(place: Path) -> dict[str, Any]:
    try:
        return {one["name"]: one for one in json.loads(place.read_text())["devices"]}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {}


def sweep(folder: Path, older_than: float) -> int:
    """Take files away that no start reads any more: each start writes its own, and a short folder is read faster."""
    removed = 0
    for place in folder.glob(f"{PREFIX}*"):
        try:
            if place.stat().st_mtime < older_than:
                place.unlink()
                removed += 1
        except FileNotFoundError:
            continue  # another start has just renamed or removed it
    return removed
