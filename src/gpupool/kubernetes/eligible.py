"""Which nodes a pod may go to, by those rules of kube-scheduler that do not depend on other pods.

A pod that is released to a node which cannot take it is stuck for good, since its affinity is frozen with the last
gate. So what the scheduler will check is checked here before. Terms are ORed, expressions within one are ANDed; the
operators are those of the core API's `NodeSelectorRequirement` and `Toleration`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
Term = tuple[tuple[str, str, str, tuple[str, ...]], ...]
"""Requirements that hold together: (where: `label` or `field`, key, operator, values)."""
Terms = tuple[Term, ...]
"""Of which one is enough."""

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""The taint that stands for `spec.unschedulable`."""
_BARRING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Constraint:
    """What a pod says about nodes, as canonical text of its parts, so that equal pods share one answer."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: Terms | None = None
    """None: no required affinity."""
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    """Each (key, operator, value, effect)."""
    shares: bool = False
    """It asks for a part of a card: not on a node that hands out whole ones alone."""

    @classmethod
    def of(cls, spec: Json, *, shares: bool = False) -> Constraint:
        """Of a pod's spec."""
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        return cls(
            selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
            terms=None if affinity is None else terms_of(affinity),
            tolerations=tuple(_toleration(one) for one in spec.get("tolerations") or ()),
            shares=shares,
        )

    def admits(self, name: str, labels: Mapping[str, str], taints: Sequence[Json]) -> bool:
        """Whether the pod may be scheduled to that node."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        if self.terms is not None and not one_matches(self.terms, name, labels):
            return False
        return all(self.tolerates(taint) for taint in taints if taint.get("effect") in _BARRING)

    def tolerates(self, taint: Json) -> bool:
        """Whether one of its tolerations covers the taint."""
        return any(_covers(one, taint) for one in self.tolerations)


def terms_of(selector: Json) -> Terms:
    """Of a core API's `NodeSelector`."""
    return tuple(_term(term) for term in selector["nodeSelectorTerms"])


def one_matches(terms: Terms, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms matches the node of that name and labels."""
    return any(_matches(term, name, labels) for term in terms)


def _term(term: Json) -> Term:
    """Requirements of a term. One without any matches no node, as the API says."""
    parts = (("label", term.get("matchExpressions")), ("field", term.get("matchFields")))
    return tuple(
        (where, one["key"], one["operator"], tuple(one.get("values") or ()))
        for where, many in parts
        for one in many or ()
    )


def _matches(term: Term, name: str, labels: Mapping[str, str]) -> bool:
    return bool(term) and all(
        holds(operator, {"metadata.name": name}.get(key) if where == "field" else labels.get(key), values)
        for where, key, operator, values in term
    )


def holds(operator: str, value: str | None, values: Sequence[str]) -> bool:
    """Whether a label of that value (None: there is none) meets a requirement."""
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    """Both sides are whole numbers, or it does not hold."""
    try:
        left, right = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def _toleration(one: Json) -> tuple[str, str, str, str]:
    return one.get("key") or "", one.get("operator") or "Equal", one.get("value") or "", one.get("effect") or ""


def _covers(toleration: tuple[str, str, str, str], taint: Json) -> bool:
    key, operator, value, effect = toleration
    if effect and effect != taint.get("effect"):
        return False
    if not key:
        return operator == "Exists"
    return key == taint.get("key") and (operator == "Exists" or value == (taint.get("value") or ""))
