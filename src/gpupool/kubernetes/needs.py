"""What a pod asks of a node beside labels, processors, memory and cards: ports, other resources, volumes, pods around.

Of pods (anti-)affinity and spread only what kube-scheduler insists on is read, not what it prefers. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from gpupool.base import quantities
from gpupool.kubernetes import names
from gpupool.kubernetes.eligible import holds

Json = Mapping[str, Any]

EVERY = "0.0.0.0"
"""The address of a host port that names none: it meets the port at every other address."""
HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_COUNTED = ("cpu", "memory")
"""Judged by the scheduler, for every pod."""


class Port(NamedTuple):
    """A port of the node itself."""

    number: int
    protocol: str = "TCP"
    address: str = EVERY

    def __str__(self) -> str:
        return f"{self.protocol} {self.number}"

    def meets(self, other: Port) -> bool:
        """Whether two pods cannot have both on one node."""
        anywhere = EVERY in (self.address, other.address) or self.address == other.address
        return anywhere and (self.number, self.protocol) == (other.number, other.protocol)


class Selector(NamedTuple):
    """Requirements on labels, all of which must hold; none: everything matches."""

    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, found: Json | None) -> Selector | None:
        """Of a core API's `LabelSelector`; one that is not there matches nothing, an empty one everything."""
        if found is None:
            return None
        exact = ((key, "In", (value,)) for key, value in (found.get("matchLabels") or {}).items())
        more = (
            (one["key"], one["operator"], tuple(one.get("values") or ())) for one in found.get("matchExpressions") or ()
        )
        return cls(tuple(sorted((*exact, *more))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(holds(operator, labels.get(key), values) for key, operator, values in self.requirements)


class Nearby(NamedTuple):
    """Pods of some namespaces that match, on nodes that have one value of the label `key`."""

    key: str
    selector: Selector | None
    namespaces: tuple[str, ...]
    """Never empty where `spaces` is None."""
    spaces: Selector | None = None
    """Also pods of namespaces with these labels."""

    @classmethod
    def of(cls, found: Json, namespace: str) -> Nearby:
        """Of a core API's `PodAffinityTerm` of a pod in that namespace."""
        listed, spaces = tuple(sorted(found.get("namespaces") or ())), Selector.of(found.get("namespaceSelector"))
        own = () if listed or spaces is not None else (namespace,)
        return cls(found["topologyKey"], Selector.of(found.get("labelSelector")), listed or own, spaces)

    def to_json(self) -> dict[str, Any]:
        """As an agent reports it."""
        found: dict[str, Any] = {"key": self.key, "namespaces": [*self.namespaces]}
        for name, one in (("selector", self.selector), ("spaces", self.spaces)):
            if one is not None:
                found[name] = [{"key": k, "operator": op, "values": [*values]} for k, op, values in one.requirements]
        return found

    @classmethod
    def from_json(cls, read: Json) -> Nearby:
        made = {
            name: None if name not in read else Selector.of({"matchExpressions": read[name]})
            for name in ("selector", "spaces")
        }
        return cls(read["key"], made["selector"], tuple(read.get("namespaces") or ()), made["spaces"])

    def matches(self, namespace: str, labels: Mapping[str, str], spaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether such a pod is meant; `spaces` are the labels of namespaces, as far as they are known."""
        if self.selector is None or not self.selector.matches(labels):
            return False
        anywhere = self.spaces is not None and (
            not self.spaces.requirements or (namespace in spaces and self.spaces.matches(spaces[namespace]))
        )
        return anywhere or namespace in self.namespaces


class Spread(NamedTuple):
    """Pods that match are to be spread over the values of the label `key`: no domain has `skew` more than the least."""

    key: str
    skew: int
    selector: Selector | None
    namespace: str
    domains: int = 0
    """Where there are fewer, the least counts as 0."""
    by_affinity: bool = True
    """Only nodes that the pod's selector and affinity admit are counted."""
    by_taints: bool = False

    @classmethod
    def of(cls, found: Json, namespace: str, labels: Mapping[str, str]) -> Spread:
        keys = [key for key in found.get("matchLabelKeys") or () if key in labels]
        selector = Selector.of(found.get("labelSelector"))
        if selector is not None:
            selector = Selector(tuple(sorted({*selector.requirements, *((k, "In", (labels[k],)) for k in keys)})))
        return cls(
            found["topologyKey"],
            found["maxSkew"],
            selector,
            namespace,
            found.get("minDomains") or 0,
            found.get("nodeAffinityPolicy", "Honor") == "Honor",
            found.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.namespace and self.selector is not None and self.selector.matches(labels)


@dataclass(frozen=True)
class Needs:
    """One pod's. Equal for most pods: `NOTHING`."""

    ports: tuple[Port, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    """Whole units, by name."""
    claims: tuple[str, ...] = ()
    """PersistentVolumeClaims."""
    near: tuple[Nearby, ...] = ()
    apart: tuple[Nearby, ...] = ()
    spread: tuple[Spread, ...] = ()

    @property
    def of_pods_around(self) -> bool:
        """Whether other pods' labels matter to it."""
        return bool(self.near or self.apart or self.spread)


NOTHING = Needs()


def needs_of(pod: Json, resources: tuple[tuple[str, int], ...] | None = None) -> Needs:
    """What a pod asks so, as the API server has it; `resources`, where they are known."""
    meta, spec = pod["metadata"], pod["spec"]
    affinity, space, labels = spec.get("affinity") or {}, meta["namespace"], meta.get("labels") or {}
    found = Needs(
        ports=tuple(sorted(set(ports_of(spec)))),
        resources=resources_of(spec) if resources is None else resources,
        claims=tuple(sorted(_claims(meta["name"], spec))),
        near=_nearby(affinity.get("podAffinity"), space),
        apart=_nearby(affinity.get("podAntiAffinity"), space),
        spread=tuple(
            Spread.of(one, space, labels)
            for one in spec.get("topologySpreadConstraints") or ()
            if one.get("whenUnsatisfiable") == "DoNotSchedule"
        ),
    )
    return NOTHING if found == NOTHING else found


def _nearby(affinity: Json | None, namespace: str) -> tuple[Nearby, ...]:
    return tuple(Nearby.of(one, namespace) for one in (affinity or {}).get(_REQUIRED) or ())


def ports_of(spec: Json) -> Iterator[Port]:
    """Ports of the node that the pod takes: of its containers and of what runs beside them."""
    beside = (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")
    for one in chain(spec.get("containers") or (), beside):
        for port in one.get("ports") or ():
            if number := port.get("hostPort"):
                yield Port(number, port.get("protocol") or "TCP", port.get("hostIP") or EVERY)


def _claims(name: str, spec: Json) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{name}-{volume['name']}"


# --- resources --------------------------------------------------------------------------------


def resources_of(spec: Json) -> tuple[tuple[str, int], ...]:
    """What the scheduler counts for the pod beside processors, memory and ours; as `amounts.requests` adds it up."""
    every = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    kinds = {name for one in every for name in _asked(one)} | set(spec.get("overhead") or {})
    found = {name: _total(name, spec) for name in kinds if others(name)}
    return tuple(sorted((name, amount) for name, amount in found.items() if amount))


def others(name: str) -> bool:
    """Whether a resource is neither counted already nor one of ours."""
    return name not in _COUNTED and not name.startswith(f"{names.GROUP}/")


def _total(name: str, spec: Json) -> int:
    beside = most = 0
    for one in spec.get("initContainers") or ():
        asked = quantities.whole(_asked(one).get(name, 0))
        if one.get("restartPolicy") == "Always":
            beside += asked
        most = max(most, beside if one.get("restartPolicy") == "Always" else beside + asked)
    together = sum(quantities.whole(_asked(one).get(name, 0)) for one in spec.get("containers") or ())
    return max(beside + together, most) + quantities.whole((spec.get("overhead") or {}).get(name, 0))


def _asked(container: Json) -> dict[str, str]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def summed(amounts: Iterable[tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    """By name, added up."""
    found: dict[str, int] = {}
    for name, amount in chain.from_iterable(amounts):
        found[name] = found.get(name, 0) + amount
    return tuple(sorted(found.items()))
