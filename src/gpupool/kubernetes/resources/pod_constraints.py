"""Reads what a pod requires of a node beside labels, CPU, memory and cards: ports, other resources,
volumes, and other pods.

Of affinity and spreading only required terms are read, no preferences. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from gpupool.base import quantities
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.node_affinity import is_requirement_met

Json = Mapping[str, Any]

#: The address of a host port that names none: it conflicts with the port at every address.
EVERY = "0.0.0.0"
HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Resources that the scheduler counts for every pod.
_COUNTED = ("cpu", "memory")


class HostPort(NamedTuple):
    """A port of the node itself."""

    number: int
    protocol: str = "TCP"
    address: str = EVERY

    def __str__(self) -> str:
        return f"{self.protocol} {self.number}"

    def meets(self, other: HostPort) -> bool:
        """Whether two pods cannot have both on one node."""
        anywhere = EVERY in (self.address, other.address) or self.address == other.address
        return anywhere and (self.number, self.protocol) == (other.number, other.protocol)


class LabelSelector(NamedTuple):
    """Requirements on labels, all of which must hold; none: everything matches."""

    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, found: Json | None) -> LabelSelector | None:
        """Read a core API's `LabelSelector`. None matches nothing, an empty one everything."""
        if found is None:
            return None
        requirements = []
        for key, value in (found.get("matchLabels") or {}).items():
            requirements.append((key, "In", (value,)))
        for one in found.get("matchExpressions") or ():
            requirements.append((one["key"], one["operator"], tuple(one.get("values") or ())))
        # Sorted, so that selectors that say the same are equal.
        return cls(tuple(sorted(requirements)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet every requirement."""
        for key, operator, values in self.requirements:
            value = labels.get(key)
            if not is_requirement_met(operator, value, values):
                return False
        return True


class AffinityTerm(NamedTuple):
    """Pods of some namespaces that match, on nodes that have one value of the label `key`."""

    key: str
    selector: LabelSelector | None
    #: Not empty if `spaces` is None.
    namespaces: tuple[str, ...]
    #: Also pods of namespaces with these labels.
    spaces: LabelSelector | None = None

    @classmethod
    def of(cls, found: Json, namespace: str) -> AffinityTerm:
        """Read a core API's `PodAffinityTerm` of a pod in that namespace."""
        # A term without namespaces selects pods of its own pod's namespace.
        listed = tuple(sorted(found.get("namespaces") or ()))
        spaces = LabelSelector.of(found.get("namespaceSelector"))
        own = () if listed or spaces is not None else (namespace,)
        return cls(
            found["topologyKey"],
            LabelSelector.of(found.get("labelSelector")),
            listed or own,
            spaces,
        )

    def to_json(self) -> dict[str, Any]:
        """As an agent reports it."""
        found: dict[str, Any] = {"key": self.key, "namespaces": [*self.namespaces]}
        for name, one in (("selector", self.selector), ("spaces", self.spaces)):
            if one is not None:
                found[name] = []
                for key, operator, values in one.requirements:
                    found[name].append({"key": key, "operator": operator, "values": [*values]})
        return found

    @classmethod
    def from_json(cls, read: Json) -> AffinityTerm:
        made = {}
        for name in ("selector", "spaces"):
            made[name] = (
                None if name not in read else LabelSelector.of({"matchExpressions": read[name]})
            )
        return cls(
            read["key"], made["selector"], tuple(read.get("namespaces") or ()), made["spaces"]
        )

    def matches(
        self, namespace: str, labels: Mapping[str, str], spaces: Mapping[str, Mapping[str, str]]
    ) -> bool:
        """Whether the term selects a pod; `spaces` are the known labels of namespaces."""
        if self.selector is None or not self.selector.matches(labels):
            return False
        anywhere = self.spaces is not None and (
            not self.spaces.requirements
            or (namespace in spaces and self.spaces.matches(spaces[namespace]))
        )
        return anywhere or namespace in self.namespaces


class SpreadConstraint(NamedTuple):
    """Pods that match are to be spread over the values of the label `key`: no domain has `skew`
    more than the least."""

    key: str
    skew: int
    selector: LabelSelector | None
    namespace: str
    #: With fewer domains the least count is taken as 0 (minDomains).
    domains: int = 0
    #: Whether only nodes that the pod's selector and affinity admit are counted.
    by_affinity: bool = True
    by_taints: bool = False

    @classmethod
    def of(cls, found: Json, namespace: str, labels: Mapping[str, str]) -> SpreadConstraint:
        """Read a core API's `TopologySpreadConstraint` of a pod with these labels."""
        selector = LabelSelector.of(found.get("labelSelector"))
        if selector is not None:
            # Each key of matchLabelKeys stands for a requirement of the pod's own value.
            requirements = set(selector.requirements)
            for key in found.get("matchLabelKeys") or ():
                if key in labels:
                    requirements.add((key, "In", (labels[key],)))
            selector = LabelSelector(tuple(sorted(requirements)))
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
        """Whether the constraint counts a pod."""
        return (
            namespace == self.namespace
            and self.selector is not None
            and self.selector.matches(labels)
        )


@dataclass(frozen=True)
class PodConstraints:
    """What one pod requires beside labels, CPU, memory and cards; `NOTHING` for most pods."""

    ports: tuple[HostPort, ...] = ()
    #: By name, whole units of other resources.
    resources: tuple[tuple[str, int], ...] = ()
    #: Names of PersistentVolumeClaims.
    claims: tuple[str, ...] = ()
    near: tuple[AffinityTerm, ...] = ()
    apart: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()

    @property
    def of_pods_around(self) -> bool:
        """Whether it depends on the labels of other pods."""
        return bool(self.near or self.apart or self.spread)


#: One object for all pods that require nothing: `is NOTHING` is the quick path everywhere.
NOTHING = PodConstraints()


def read_constraints(
    pod: Json, resources: tuple[tuple[str, int], ...] | None = None
) -> PodConstraints:
    """Read the constraints of a pod as the API server has it.

    Args:
        resources: its sums of other resources if they are known.
    """
    meta = pod["metadata"]
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    space = meta["namespace"]
    labels = meta.get("labels") or {}
    spread = []
    for one in spec.get("topologySpreadConstraints") or ():
        # `ScheduleAnyway` is a preference, which excludes no node.
        if one.get("whenUnsatisfiable") == "DoNotSchedule":
            spread.append(SpreadConstraint.of(one, space, labels))
    found = PodConstraints(
        ports=tuple(sorted(set(read_ports(spec)))),
        resources=sum_resources(spec) if resources is None else resources,
        claims=tuple(sorted(_list_claims(meta["name"], spec))),
        near=_read_affinity_terms(affinity.get("podAffinity"), space),
        apart=_read_affinity_terms(affinity.get("podAntiAffinity"), space),
        spread=tuple(spread),
    )
    return NOTHING if found == NOTHING else found


def _read_affinity_terms(affinity: Json | None, namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm.of(one, namespace) for one in (affinity or {}).get(_REQUIRED) or ())


def read_ports(spec: Json) -> Iterator[HostPort]:
    """Yield the host ports of the pod's containers and sidecars."""
    running = list(spec.get("containers") or ())
    for one in spec.get("initContainers") or ():
        # A sidecar (KEP-753) runs beside the containers; other init containers have ended by then.
        if one.get("restartPolicy") == "Always":
            running.append(one)
    for one in running:
        for port in one.get("ports") or ():
            if number := port.get("hostPort"):
                yield HostPort(number, port.get("protocol") or "TCP", port.get("hostIP") or EVERY)


def _list_claims(name: str, spec: Json) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            # The name that Kubernetes gives the claim of an ephemeral volume.
            yield f"{name}-{volume['name']}"


# --- resources --------------------------------------------------------------------------------


def sum_resources(spec: Json) -> tuple[tuple[str, int], ...]:
    """By name, what the pod requests of resources other than CPU, memory and ours."""
    kinds = {*(spec.get("overhead") or {}), *read_pod_level(spec)}
    for one in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        kinds.update(_container_resources(one))
    found = []
    for name in sorted(filter(is_foreign_resource, kinds)):
        amount = _sum_resource(name, spec)
        if amount:
            found.append((name, amount))
    return tuple(found)


def is_foreign_resource(name: str) -> bool:
    """Whether a resource is neither counted already nor one of ours."""
    return name not in _COUNTED and not name.startswith(f"{names.GROUP}/")


def _sum_resource(name: str, spec: Json) -> int:
    # As the kubelet counts (KEP-753): init containers run one after the other, each beside the
    # sidecars before it; the containers run together with all sidecars.
    beside = most = 0
    for one in spec.get("initContainers") or ():
        asked = quantities.parse_whole(_container_resources(one).get(name, 0))
        if one.get("restartPolicy") == "Always":
            beside += asked
        most = max(most, beside if one.get("restartPolicy") == "Always" else beside + asked)
    together = 0
    for one in spec.get("containers") or ():
        together += quantities.parse_whole(_container_resources(one).get(name, 0))
    asked = read_pod_level(spec).get(name, max(beside + together, most))
    overhead = (spec.get("overhead") or {}).get(name, 0)
    return quantities.parse_whole(asked) + quantities.parse_whole(overhead)


def read_pod_level(spec: Json) -> Json:
    """What the pod requests as a whole, in place of the sum of its containers (KEP-2837)."""
    return (spec.get("resources") or {}).get("requests") or {}


def _container_resources(container: Json) -> dict[str, str]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def sum_amounts(amounts: Iterable[tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    """Add amounts up by name."""
    found: dict[str, int] = {}
    for name, amount in chain.from_iterable(amounts):
        found[name] = found.get(name, 0) + amount
    return tuple(sorted(found.items()))
