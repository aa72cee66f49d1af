"""How many volumes a CSI driver attaches to a node, and which it has: as kube-scheduler's NodeVolumeLimits counts them.

A limit is the driver's own word of a node (`CSINode`). What is attached is what pods of ours use there and what the
cluster says that it has attached (`VolumeAttachment`), each volume once. A pod of others that was bound and whose
volumes are not attached yet is not seen for that moment: then kube-scheduler does not bind ours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Json = Mapping[str, Any]


class Attached(NamedTuple):
    """One volume: of a PersistentVolume the name, of one that is not made yet its claim's."""

    driver: str
    volume: str


class Attaching:
    """`changed` is called where an answer may be another one."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._limits: dict[str, dict[str, int]] = {}
        """By node and driver."""
        self._limited: Counter[str] = Counter()
        """By driver, how many nodes limit it."""
        self._known: dict[str, tuple[str, Attached]] = {}
        """By name of its VolumeAttachment, where it is."""
        self._on: defaultdict[str, set[Attached]] = defaultdict(set)
        self._nodes: Counter[Attached] = Counter()
        """On how many each is."""

    def note_node(self, found: Json, gone: bool) -> None:
        """A CSINode as it is now."""
        name, drivers = found["metadata"]["name"], [] if gone else found["spec"].get("drivers") or []
        counts = {one["name"]: (one.get("allocatable") or {}).get("count") for one in drivers}
        now, before = {name: count for name, count in counts.items() if count is not None}, self._limits.pop(name, {})
        if now:
            self._limits[name] = now
        if now != before:
            self._limited.update(now.keys())
            self._limited.subtract(before.keys())
            self._changed()

    def note(self, found: Json, gone: bool) -> None:
        """A VolumeAttachment as it is now. What it names never changes."""
        key, spec = found["metadata"]["name"], found["spec"]
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if not volume or gone == (key not in self._known):
            return
        node, what = spec["nodeName"], Attached(spec["attacher"], volume)
        if gone:
            del self._known[key]
            self._on[node].discard(what)
        else:
            self._known[key] = node, what
            self._on[node].add(what)
        self._nodes[what] += -1 if gone else 1
        if not self._nodes[what]:
            del self._nodes[what]
        if self._limited[what.driver]:
            self._changed()

    def split(self, volumes: Iterable[Attached]) -> tuple[tuple[tuple[str, int], ...], tuple[Attached, ...]]:
        """Of drivers with a limit: how many volumes are new wherever they come, and those that some node has already.

        So pods with volumes of their own are alike, as far as nodes are concerned.
        """
        mine = sorted(one for one in volumes if self._limited[one.driver])
        new = Counter(one.driver for one in mine if one not in self._nodes)
        return tuple(sorted(new.items())), tuple(one for one in mine if one in self._nodes)

    def why_full(self, new: Mapping[str, int], some: Iterable[Attached], node: str, there: Iterable[Attached]) -> str:
        """Why the node takes not all of these beside what is there; empty where it does."""
        limits, has = self._limits.get(node, {}), {*there, *self._on.get(node, ())}
        come = Counter(new) + Counter(one.driver for one in some if one not in has)
        for driver, count in sorted(come.items()):
            if driver in limits and sum(one.driver == driver for one in has) + count > limits[driver]:
                return f"{TOO_MANY} {driver}: {limits[driver]} can be attached there"
        return ""


TOO_MANY = "too many volumes of"
