"""Decides which nodes the volumes of a pod can be reached from.

The rules are those of kube-scheduler's plugins VolumeBinding and VolumeZone. An existing volume
names the nodes that reach it. A volume that is created for its first pod goes where its class
allows it. A volume that is created in advance is waited for. `volume_limits` counts what a driver
can attach to a node. Whether a driver has storage left is not evaluated: only the driver knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gpupool.base import quantities
from gpupool.kubernetes.predicates.volume_limits import AttachmentLimits, DriverVolume
from gpupool.kubernetes.resources.node_affinity import Term, Terms, parse_terms
from gpupool.kubernetes.resources.pod_constraints import LabelSelector

Json = Mapping[str, Any]
T = TypeVar("T")
_ANY = LabelSelector()

LATER = "WaitForFirstConsumer"
ALONE = "ReadWriteOncePod"
_BY_HAND = "kubernetes.io/no-provisioner"
_DONE = "pv.kubernetes.io/bind-completed"
_NODE = "volume.kubernetes.io/selected-node"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


@dataclass(frozen=True)
class VolumeClaim:
    """A PersistentVolumeClaim, as far as a placement depends on it."""

    #: Name of its class; None: not set yet, the default class counts.
    kind: str | None
    volume: str = ""
    bound: bool = False
    deleting: bool = False
    lost: bool = False
    #: The node that its volume is being created for.
    node: str = ""
    modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    bytes: int = 0
    selector: LabelSelector = _ANY

    @classmethod
    def from_json(cls, found: Json) -> VolumeClaim:
        meta = found["metadata"]
        spec = found["spec"]
        notes = found["metadata"].get("annotations") or {}
        return cls(
            spec.get("storageClassName"),
            spec.get("volumeName") or "",
            bool(spec.get("volumeName")) and _DONE in notes,
            meta.get("deletionTimestamp") is not None,
            (found.get("status") or {}).get("phase") == "Lost",
            notes.get(_NODE, ""),
            tuple(spec.get("accessModes") or ()),
            spec.get("volumeMode") or "Filesystem",
            quantities.parse_whole(
                ((spec.get("resources") or {}).get("requests") or {}).get("storage", 0)
            ),
            LabelSelector.of(spec.get("selector")) or _ANY,
        )


@dataclass(frozen=True)
class PersistentVolume:
    """A PersistentVolume: the nodes that reach it, and the claims that could be bound to it."""

    #: A node must match one term of each of these.
    terms: tuple[Terms, ...]
    kind: str
    taken_by: tuple[str, str] | None
    free: bool
    modes: frozenset[str]
    mode: str
    bytes: int
    labels: tuple[tuple[str, str], ...]
    #: The CSI driver that attaches it; empty if none does.
    driver: str = ""

    @classmethod
    def from_json(cls, found: Json) -> PersistentVolume:
        spec = found["spec"]
        labels = found["metadata"].get("labels") or {}
        required = (spec.get("nodeAffinity") or {}).get("required")
        owner = spec.get("claimRef")
        terms: list[Terms] = [parse_terms(required)] if required else []
        for key in _ZONES:
            if key in labels:
                # VolumeZone separates the zones of one volume by two underscores.
                zone = ("label", key, "In", tuple(labels[key].split("__")))
                terms.append(((zone,),))
        return cls(
            tuple(terms),
            spec.get("storageClassName") or "",
            (owner.get("namespace", ""), owner.get("name", "")) if owner else None,
            (found.get("status") or {}).get("phase") in ("Available", "Pending"),
            frozenset(spec.get("accessModes") or ()),
            spec.get("volumeMode") or "Filesystem",
            quantities.parse_whole((spec.get("capacity") or {}).get("storage", 0)),
            tuple(sorted(labels.items())),
            (spec.get("csi") or {}).get("driver", ""),
        )

    def serves(self, name: tuple[str, str], claim: VolumeClaim) -> bool:
        """Whether the claim of that name could be bound to it."""
        is_available = self.taken_by == name or (self.taken_by is None and self.free)
        if not is_available or self.bytes < claim.bytes:
            return False
        if self.kind != (claim.kind or "") or self.mode != claim.mode:
            return False
        return self.modes.issuperset(claim.modes) and claim.selector.matches(dict(self.labels))


@dataclass(frozen=True)
class StorageClass:
    """A StorageClass, as far as a placement depends on it."""

    #: Whether its claims are bound when their first pod is placed (WaitForFirstConsumer).
    later: bool
    #: Whether it creates volumes; False for volumes that are created by hand.
    makes: bool
    #: Where it creates them; empty: everywhere.
    terms: Terms
    default: bool
    driver: str = ""

    @classmethod
    def from_json(cls, found: Json) -> StorageClass:
        terms = []
        for topology in found.get("allowedTopologies") or ():
            term = []
            for one in topology.get("matchLabelExpressions") or ():
                term.append(("label", one["key"], "In", tuple(one.get("values") or ())))
            terms.append(tuple(term))
        return cls(
            found.get("volumeBindingMode") == LATER,
            found.get("provisioner") != _BY_HAND,
            tuple(terms),
            ((found["metadata"].get("annotations") or {}).get(_DEFAULT)) == "true",
            found.get("provisioner", ""),
        )


@dataclass(frozen=True)
class VolumePlacement:
    """What all claims of a pod demand of its node, or why the pod waits for them (`waits`).

    A node must match one term of each of `terms`.
    """

    terms: tuple[Terms, ...] = ()
    #: Claims that one pod at a time may use: (namespace, name).
    alone: tuple[tuple[str, str], ...] = ()
    #: By driver with a limit, the number of volumes that are new on any node.
    attaches: tuple[tuple[str, int], ...] = ()
    #: Volumes that some node has attached already: they are new on the other nodes only.
    known_volumes: tuple[DriverVolume, ...] = ()
    waits: str = ""


class VolumeDemand(Protocol):
    """What names the volumes that come with a pod, as `VolumePlacement` and `PodDemand` do."""

    @property
    def attaches(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def known_volumes(self) -> tuple[DriverVolume, ...]: ...


class VolumeIndex:
    """All claims, volumes and classes. `changed` is called whenever an answer may differ."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._claims: dict[tuple[str, str], VolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self.attaching = AttachmentLimits(changed)
        #: Whether all of them have been listed.
        self.known = False

    def mark_listed(self) -> None:
        """All kinds have been listed: answers are complete from now on."""
        self.known = True
        self._changed()

    def note_claim(self, found: Json, gone: bool) -> None:
        """Note a PersistentVolumeClaim as it is now."""
        meta = found["metadata"]
        self._note_object(
            self._claims,
            (meta["namespace"], meta["name"]),
            None if gone else VolumeClaim.from_json(found),
        )

    def note_volume(self, found: Json, gone: bool) -> None:
        """Note a PersistentVolume as it is now."""
        self._note_object(
            self._volumes,
            found["metadata"]["name"],
            None if gone else PersistentVolume.from_json(found),
        )

    def note_class(self, found: Json, gone: bool) -> None:
        """Note a StorageClass as it is now."""
        self._note_object(
            self._classes,
            found["metadata"]["name"],
            None if gone else StorageClass.from_json(found),
        )

    def find_attached_volume(self, claim: tuple[str, str]) -> DriverVolume | None:
        """Return the claim's volume as its driver attaches it; None without a driver."""
        found = self._claims.get(claim)
        if found is None:
            return None
        if found.bound:
            volume = self._volumes.get(found.volume)
            return DriverVolume(volume.driver, found.volume) if volume and volume.driver else None
        # A volume that is not created yet is named after its claim: it counts once for all pods of
        # the claim.
        kind = self._classes.get(self._find_class(found))
        if kind is None or kind.driver == _BY_HAND:
            return None
        return DriverVolume(kind.driver, "/".join(claim))

    def why_full(self, places: VolumeDemand, node: str, claims: Iterable[tuple[str, str]]) -> str:
        """Return why the node cannot attach all volumes of the pod; empty if it can.

        Args:
            claims: claims that pods on the node use already.
        """
        if not places.attaches and not places.known_volumes:
            return ""
        there = self._find_attached_volumes(claims)
        return self.attaching.why_full(dict(places.attaches), places.known_volumes, node, there)

    def _find_attached_volumes(self, claims: Iterable[tuple[str, str]]) -> set[DriverVolume]:
        volumes = set()
        for claim in claims:
            if volume := self.find_attached_volume(claim):
                volumes.add(volume)
        return volumes

    def _note_object(self, into: dict[Any, T], key: Any, now: T | None) -> None:
        # A list repeats everything that is known already: that must not count as a change.
        if into.get(key) == now:
            return
        if now is None:
            del into[key]
        else:
            into[key] = now
        self._changed()

    def placement_of(self, namespace: str, claims: tuple[str, ...]) -> VolumePlacement:
        """Return what these claims of a pod in that namespace demand."""
        if not self.known:
            return VolumePlacement(waits="its volumes are being looked up")
        terms: list[Terms] = []
        for name in claims:
            found = self._place_claim((namespace, name))
            if isinstance(found, str):
                return VolumePlacement(waits=found)
            terms += found
        keys = [(namespace, name) for name in claims]
        alone = tuple(key for key in keys if self._claims[key].modes == (ALONE,))
        volumes = self._find_attached_volumes(keys)
        return VolumePlacement(
            tuple(dict.fromkeys(terms)), alone, *self.attaching.split_volumes(volumes)
        )

    def _place_claim(self, name: tuple[str, str]) -> tuple[Terms, ...] | str:
        """Return the terms of one claim, or why the pod has to wait for it."""
        claim = self._claims.get(name)
        said = f"the PersistentVolumeClaim {name[1]}"
        if claim is None:
            return f"{said} does not exist in {name[0]}"
        if claim.deleting or claim.lost:
            return f"{said} {'is being deleted' if claim.deleting else 'has lost its volume'}"
        if claim.bound:
            volume = self._volumes.get(claim.volume)
            if volume is None:
                return f"{said} is bound to {claim.volume}, which does not exist"
            return volume.terms
        kind = self._classes.get(self._find_class(claim))
        if kind is None or not kind.later:
            return f"{said} has no volume yet, and its class does not wait for a pod: one must be made first"
        terms = self._place_unbound(name, claim, kind)
        return terms or f"{said}: no volume of class {claim.kind} is free for it"

    def _find_class(self, claim: VolumeClaim) -> str:
        """Return the name of the claim's class; the default class if the claim names none."""
        if claim.kind is not None:
            return claim.kind
        for name, one in sorted(self._classes.items()):
            if one.default:
                return name
        return ""

    def _place_unbound(
        self, name: tuple[str, str], claim: VolumeClaim, kind: StorageClass
    ) -> tuple[Terms, ...]:
        """Return the terms of a claim that is bound at the placement; empty without a volume."""
        # kube-scheduler has chosen this node already, and the driver creates the volume there.
        if claim.node:
            return (((("field", "metadata.name", "In", (claim.node,)),),),)
        if kind.makes and not kind.terms:
            return (ANYWHERE,)
        ready = []
        for one in self._volumes.values():
            if one.serves(name, claim):
                ready.append(one)
        if any(not one.terms for one in ready):
            return (ANYWHERE,)
        reached: set[Term] = set()
        for volume in ready:
            reached.update(volume.terms[0])
        # Terms are ORed: the pod may go where a free volume is, or where one can be created.
        return (tuple(sorted(reached)) + kind.terms,) if reached or kind.makes else ()


ANYWHERE: Terms = ((("field", "metadata.name", "Exists", ()),),)
