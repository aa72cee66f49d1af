"""Evaluates node selectors, node affinity and taints, as kube-scheduler does.

A pod that is released to a node which cannot take it is stuck for good, because its affinity cannot
be changed after the last gate is removed. So the rules are evaluated here before. Terms are ORed,
expressions within a term are ANDed; the operators are those of the core API's
`NodeSelectorRequirement` and `Toleration`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
#: Requirements that hold together: (where: `label` or `field`, key, operator, values).
Term = tuple[tuple[str, str, str, tuple[str, ...]], ...]
#: Terms of which one is enough.
Terms = tuple[Term, ...]

#: The taint that stands for `spec.unschedulable`.
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_BARRING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class NodeConstraint:
    """What a pod demands of a node's labels and taints, as canonical parts: equal pods are equal."""

    selector: tuple[tuple[str, str], ...] = ()
    #: None: no required affinity.
    terms: Terms | None = None
    #: Each (key, operator, value, effect).
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    #: Whether it requests a part of a card, which a node in mode `whole` does not hand out.
    shares: bool = False

    @classmethod
    def of(cls, spec: Json, *, shares: bool = False) -> NodeConstraint:
        """Read the constraint of a pod's spec."""
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        return cls(
            selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
            terms=None if affinity is None else parse_terms(affinity),
            tolerations=tuple(map(_read_toleration, spec.get("tolerations") or ())),
            shares=shares,
        )

    def admits(self, name: str, labels: Mapping[str, str], taints: Sequence[Json]) -> bool:
        """Whether the pod may be scheduled to that node."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        if self.terms is not None and not has_matching_term(self.terms, name, labels):
            return False
        barring = [taint for taint in taints if taint.get("effect") in _BARRING]
        return all(map(self.tolerates, barring))

    def tolerates(self, taint: Json) -> bool:
        """Whether one of its tolerations covers the taint."""
        return any(_is_covered(taint, one) for one in self.tolerations)


def parse_terms(selector: Json) -> Terms:
    """Read the terms of a core API's `NodeSelector`."""
    return tuple(map(_read_term, selector["nodeSelectorTerms"]))


def has_matching_term(terms: Terms, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms matches the node of that name and labels."""
    return any(_is_matching(term, name, labels) for term in terms)


def _read_term(term: Json) -> Term:
    requirements = []
    for where, part in (("label", "matchExpressions"), ("field", "matchFields")):
        for one in term.get(part) or ():
            values = tuple(one.get("values") or ())
            requirements.append((where, one["key"], one["operator"], values))
    return tuple(requirements)


def _is_matching(term: Term, name: str, labels: Mapping[str, str]) -> bool:
    for where, key, operator, values in term:
        # `metadata.name` is the only field that the API allows here.
        found = {"metadata.name": name} if where == "field" else labels
        value = found.get(key)
        if not is_requirement_met(operator, value, values):
            return False
    # A term without requirements matches no node (core API, `NodeSelectorTerm`).
    return bool(term)


def is_requirement_met(operator: str, value: str | None, values: Sequence[str]) -> bool:
    """Whether a label with that value meets a requirement; None: the label is absent."""
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
            return _is_comparison_true(operator, value, values)
    return False


def _is_comparison_true(operator: str, value: str | None, values: Sequence[str]) -> bool:
    # With a side that is no whole number the requirement does not hold, as in kube-scheduler.
    try:
        left = int(value or "")
        right = int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def _read_toleration(one: Json) -> tuple[str, str, str, str]:
    return (
        one.get("key") or "",
        one.get("operator") or "Equal",
        one.get("value") or "",
        one.get("effect") or "",
    )


def _is_covered(taint: Json, toleration: tuple[str, str, str, str]) -> bool:
    # An empty effect covers every effect; an empty key with `Exists` covers every taint.
    key, operator, value, effect = toleration
    if effect and effect != taint.get("effect"):
        return False
    if not key:
        return operator == "Exists"
    return key == taint.get("key") and (operator == "Exists" or value == (taint.get("value") or ""))
