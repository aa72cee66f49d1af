"""Counts the volumes that a CSI driver may attach to a node, as kube-scheduler's NodeVolumeLimits
does.

The limit is the driver's own (`CSINode`). Attached are volumes of our pods on the node and those
that the cluster reports (`VolumeAttachment`), each volume once. A foreign pod that was bound and
whose volumes are not attached yet is missed for that moment: kube-scheduler then does not bind our
pod.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Json = Mapping[str, Any]


class DriverVolume(NamedTuple):
    """One volume by the name of its PersistentVolume, or of its claim before it is created."""

    driver: str
    volume: str


class AttachmentLimits:
    """Limits and attachments of all nodes. `changed` is called whenever an answer may differ."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        #: By node and driver, the most volumes.
        self._limits: dict[str, dict[str, int]] = {}
        #: By driver, the number of nodes that limit it.
        self._limited: Counter[str] = Counter()
        #: By name of a VolumeAttachment, its node and volume.
        self._known: dict[str, tuple[str, DriverVolume]] = {}
        self._on: defaultdict[str, set[DriverVolume]] = defaultdict(set)
        #: By volume, the number of nodes that have it attached.
        self._nodes: Counter[DriverVolume] = Counter()

    def note_node(self, found: Json, gone: bool) -> None:
        """Note a CSINode as it is now."""
        name = found["metadata"]["name"]
        drivers = [] if gone else found["spec"].get("drivers") or []
        now = {}
        for driver in drivers:
            # A driver without a count has no limit.
            count = (driver.get("allocatable") or {}).get("count")
            if count is not None:
                now[driver["name"]] = count
        before = self._limits.pop(name, {})
        if now:
            self._limits[name] = now
        if now != before:
            self._limited.update(now.keys())
            self._limited.subtract(before.keys())
            self._changed()

    def note_attachment(self, found: Json, gone: bool) -> None:
        """Note a VolumeAttachment as it is now."""
        # Its spec never changes (storage.k8s.io/v1), so only the first event and the last count.
        key = found["metadata"]["name"]
        if gone == (key not in self._known):
            return
        if gone:
            # A list tells of a deletion that no watch has seen by the name alone.
            node, what = self._known.pop(key)
            self._on[node].discard(what)
        else:
            spec = found["spec"]
            volume = (spec.get("source") or {}).get("persistentVolumeName")
            if not volume:
                return
            node = spec["nodeName"]
            what = DriverVolume(spec["attacher"], volume)
            self._known[key] = node, what
            self._on[node].add(what)
        self._nodes[what] += -1 if gone else 1
        if not self._nodes[what]:
            del self._nodes[what]
        if self._limited[what.driver]:
            self._changed()

    def split_volumes(
        self, volumes: Iterable[DriverVolume]
    ) -> tuple[tuple[tuple[str, int], ...], tuple[DriverVolume, ...]]:
        """Split volumes of drivers with a limit by whether some node has them attached.

        Returns:
            By driver, the number of volumes that no node has; and the volumes that some node has.
        """
        # Numbers and not names: pods that differ only in the names of new volumes have equal
        # demands, and are evaluated once.
        mine = sorted(one for one in volumes if self._limited[one.driver])
        new = Counter(one.driver for one in mine if one not in self._nodes)
        existing = []
        for one in mine:
            if one in self._nodes:
                existing.append(one)
        return tuple(sorted(new.items())), tuple(existing)

    def why_full(
        self,
        new: Mapping[str, int],
        some: Iterable[DriverVolume],
        node: str,
        there: Iterable[DriverVolume],
    ) -> str:
        """Return why the node cannot attach all of these volumes; empty if it can.

        Args:
            new: by driver, the number of volumes that no node has.
            some: volumes that some node has.
            there: volumes that pods on the node use already.
        """
        limits = self._limits.get(node, {})
        has = {*there, *self._on.get(node, ())}
        come = Counter(new) + Counter(one.driver for one in some if one not in has)
        for driver, count in sorted(come.items()):
            attached = sum(one.driver == driver for one in has)
            if driver in limits and attached + count > limits[driver]:
                return f"{TOO_MANY} {driver}: {limits[driver]} can be attached there"
        return ""


TOO_MANY = "too many volumes of"
