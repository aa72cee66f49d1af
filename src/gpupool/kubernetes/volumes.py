"""Where the volumes of a pod let it go: claims, volumes and classes as they are noted, a rule on nodes out.

As kube-scheduler has it (its plugins VolumeBinding and VolumeZone): a volume that is there says which nodes reach it;
one that is made when its first pod is placed goes where its class allows it; one that somebody makes in advance is
waited for. How many a driver attaches to a node is counted as by its plugin NodeVolumeLimits (`attaching`). Whether a
driver has room left in some place, it alone knows: that is not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gpupool.base import quantities
from gpupool.kubernetes.attaching import Attached, Attaching
from gpupool.kubernetes.eligible import Terms, terms_of
from gpupool.kubernetes.needs import Selector

Json = Mapping[str, Any]
T = TypeVar("T")
_ANY = Selector()

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
class Claim:
    """A PersistentVolumeClaim, as far as it matters."""

    kind: str | None
    """Its class; None is not said yet."""
    volume: str = ""
    bound: bool = False
    deleting: bool = False
    lost: bool = False
    node: str = ""
    """Where its volume is being made."""
    modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    bytes: int = 0
    selector: Selector = _ANY

    @classmethod
    def from_json(cls, found: Json) -> Claim:
        meta, spec, notes = found["metadata"], found["spec"], found["metadata"].get("annotations") or {}
        return cls(
            spec.get("storageClassName"),
            spec.get("volumeName") or "",
            bool(spec.get("volumeName")) and _DONE in notes,
            meta.get("deletionTimestamp") is not None,
            (found.get("status") or {}).get("phase") == "Lost",
            notes.get(_NODE, ""),
            tuple(spec.get("accessModes") or ()),
            spec.get("volumeMode") or "Filesystem",
            quantities.whole(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0)),
            Selector.of(spec.get("selector")) or _ANY,
        )


@dataclass(frozen=True)
class Volume:
    """A PersistentVolume: the nodes that reach it, and what it could be given to."""

    terms: tuple[Terms, ...]
    """Of each of these, one must match."""
    kind: str
    taken_by: tuple[str, str] | None
    free: bool
    modes: frozenset[str]
    mode: str
    bytes: int
    labels: tuple[tuple[str, str], ...]
    driver: str = ""
    """Who attaches it, where somebody does."""

    @classmethod
    def from_json(cls, found: Json) -> Volume:
        spec, labels = found["spec"], found["metadata"].get("labels") or {}
        required, owner = (spec.get("nodeAffinity") or {}).get("required"), spec.get("claimRef")
        zones = tuple((("label", key, "In", tuple(labels[key].split("__"))),) for key in _ZONES if key in labels)
        return cls(
            ((terms_of(required),) if required else ()) + tuple((zone,) for zone in zones),
            spec.get("storageClassName") or "",
            (owner["namespace"], owner["name"]) if owner else None,
            (found.get("status") or {}).get("phase") in ("Available", "Pending"),
            frozenset(spec.get("accessModes") or ()),
            spec.get("volumeMode") or "Filesystem",
            quantities.whole((spec.get("capacity") or {}).get("storage", 0)),
            tuple(sorted(labels.items())),
            (spec.get("csi") or {}).get("driver", ""),
        )

    def serves(self, name: tuple[str, str], claim: Claim) -> bool:
        """Whether the claim of that name could be bound to it."""
        its = self.taken_by == name or (self.taken_by is None and self.free)
        alike = self.kind == (claim.kind or "") and self.mode == claim.mode and self.modes.issuperset(claim.modes)
        return its and alike and self.bytes >= claim.bytes and claim.selector.matches(dict(self.labels))


@dataclass(frozen=True)
class Class:
    """A StorageClass."""

    later: bool
    makes: bool
    """Volumes come by themselves."""
    terms: Terms
    """Where it makes them; nothing: everywhere."""
    default: bool
    driver: str = ""

    @classmethod
    def from_json(cls, found: Json) -> Class:
        return cls(
            found.get("volumeBindingMode") == LATER,
            found.get("provisioner") != _BY_HAND,
            tuple(
                tuple(
                    ("label", one["key"], "In", tuple(one.get("values") or ()))
                    for one in term.get("matchLabelExpressions") or ()
                )
                for term in found.get("allowedTopologies") or ()
            ),
            ((found["metadata"].get("annotations") or {}).get(_DEFAULT)) == "true",
            found.get("provisioner", ""),
        )


@dataclass(frozen=True)
class Places:
    """What a pod's claims say together: of each of `terms` one must match; or why it waits for them."""

    terms: tuple[Terms, ...] = ()
    alone: tuple[tuple[str, str], ...] = ()
    """Claims that one pod at a time may use: (namespace, name)."""
    attaches: tuple[tuple[str, int], ...] = ()
    """By driver with a limit, how many volumes come to the node, wherever that is."""
    attached: tuple[Attached, ...] = ()
    """Those that come only to nodes where they are not: some node has them already."""
    waits: str = ""


class Comes(Protocol):
    """What says which volumes come with a pod, as `Places` does."""

    @property
    def attaches(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def attached(self) -> tuple[Attached, ...]: ...


class Volumes:
    """All that there are. `changed` is called where an answer may be another one."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._claims: dict[tuple[str, str], Claim] = {}
        self._volumes: dict[str, Volume] = {}
        self._classes: dict[str, Class] = {}
        self.attaching = Attaching(changed)
        self.known = False
        """Whether all have been listed."""

    def listed(self) -> None:
        self.known = True
        self._changed()

    def note_claim(self, found: Json, gone: bool) -> None:
        meta = found["metadata"]
        self._note(self._claims, (meta["namespace"], meta["name"]), None if gone else Claim.from_json(found))

    def note_volume(self, found: Json, gone: bool) -> None:
        self._note(self._volumes, found["metadata"]["name"], None if gone else Volume.from_json(found))

    def note_class(self, found: Json, gone: bool) -> None:
        self._note(self._classes, found["metadata"]["name"], None if gone else Class.from_json(found))

    def attached(self, claim: tuple[str, str]) -> Attached | None:
        """The claim's volume, as its driver attaches it; None where none does."""
        found = self._claims.get(claim)
        if found is None:
            return None
        if found.bound:
            volume = self._volumes.get(found.volume)
            return Attached(volume.driver, found.volume) if volume and volume.driver else None
        kind = self._classes.get(self._class_of(found))
        return Attached(kind.driver, "/".join(claim)) if kind and kind.driver != _BY_HAND else None

    def why_full(self, places: Comes, node: str, claims: Iterable[tuple[str, str]]) -> str:
        """Why not all of its volumes can be attached to the node, where pods use those claims; empty where they can."""
        if not places.attaches and not places.attached:
            return ""
        there = {one for claim in claims if (one := self.attached(claim))}
        return self.attaching.why_full(dict(places.attaches), places.attached, node, there)

    def _note(self, into: dict[Any, T], key: Any, now: T | None) -> None:
        if into.get(key) == now:
            return
        if now is None:
            del into[key]
        else:
            into[key] = now
        self._changed()

    def places(self, namespace: str, claims: tuple[str, ...]) -> Places:
        """Of a pod in that namespace with these claims."""
        if not self.known:
            return Places(waits="its volumes are being looked up")
        terms: list[Terms] = []
        for name in claims:
            found = self._one((namespace, name))
            if isinstance(found, str):
                return Places(waits=found)
            terms += found
        used = tuple((namespace, name) for name in claims if self._claims[namespace, name].modes == (ALONE,))
        its = {one for name in claims if (one := self.attached((namespace, name)))}
        return Places(tuple(dict.fromkeys(terms)), used, *self.attaching.split(its))

    def _one(self, name: tuple[str, str]) -> tuple[Terms, ...] | str:
        claim, said = self._claims.get(name), f"the PersistentVolumeClaim {name[1]}"
        if claim is None:
            return f"{said} does not exist in {name[0]}"
        if claim.deleting or claim.lost:
            return f"{said} {'is being deleted' if claim.deleting else 'has lost its volume'}"
        if claim.bound:
            volume = self._volumes.get(claim.volume)
            return f"{said} is bound to {claim.volume}, which does not exist" if volume is None else volume.terms
        kind = self._classes.get(self._class_of(claim))
        if kind is None or not kind.later:
            return f"{said} has no volume yet, and its class does not wait for a pod: one must be made first"
        return self._later(name, claim, kind) or f"{said}: no volume of class {claim.kind} is free for it"

    def _class_of(self, claim: Claim) -> str:
        """By name; the default where the claim names none."""
        if claim.kind is not None:
            return claim.kind
        return next((name for name, one in sorted(self._classes.items()) if one.default), "")

    def _later(self, name: tuple[str, str], claim: Claim, kind: Class) -> tuple[Terms, ...]:
        """For a volume that is bound or made when the pod is placed; nothing where there is none to be had."""
        if claim.node:
            return (((("field", "metadata.name", "In", (claim.node,)),),),)
        if kind.makes and not kind.terms:
            return (ANYWHERE,)
        ready = [one for one in self._volumes.values() if one.serves(name, claim)]
        if any(not one.terms for one in ready):
            return (ANYWHERE,)
        reached = tuple(sorted({term for one in ready for term in one.terms[0]}))
        return (reached + kind.terms,) if reached or kind.makes else ()


ANYWHERE: Terms = ((("field", "metadata.name", "Exists", ()),),)
