"""Decides what admission makes of a new pod: it normalises the pod, leaves it alone or refuses it.

A pod that requests no GPU is left alone. One that does gets the normal form (`dialects`), our gate
and our label. Idempotent, because the API server may ask again after another webhook has changed
the pod. A pod is refused only if waiting cannot help; capacity in use means that it waits. Shapes:
`admission.k8s.io/v1` AdmissionReview. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from gpupool.base.errors import GpupoolError, IsolationNotOffered, RequestRejection
from gpupool.dialects.contract import PodClaim
from gpupool.dialects.facts import UNKNOWN, NodeFacts
from gpupool.dialects.manifests.reading import understand_pod
from gpupool.dialects.manifests.writing import write_admitted
from gpupool.dialects.shapes import translate_shape
from gpupool.kubernetes.admission.partition_claims import check_stored, resolve_claim
from gpupool.kubernetes.resources import direct_binding as direct
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.tenant import TenantTree
from gpupool.model.claim import Rejection, RejectionReason, Shape
from gpupool.model.quota import QuotaBranch, ResourceAmount
from gpupool.scheduling import CardTable, TenantView, judge_claim

Json = Mapping[str, Any]
#: Claims whose answer is remembered until something about the cluster changes.
QUESTIONS = 1024


@dataclass(frozen=True)
class ClusterFacts:
    """What admission knows of the cluster."""

    cards: CardTable | None = None
    facts: NodeFacts = UNKNOWN
    #: Names of the dialects that are read; None: all. A pod in another dialect is left to the
    #: system that it was written for.
    dialects: frozenset[str] | None = None
    tree: TenantTree = field(default_factory=TenantTree)
    #: Whether the controller binds the pods that qualify.
    direct: bool = False

    @cached_property
    def why_never(self) -> Callable[[Shape, str], Rejection | None]:
        """Return why a tenant can never get a shape; None if it may, or if that is unknown."""
        # Pods of one owner repeat the question.
        return lru_cache(QUESTIONS)(self._judge_shape)

    def _judge_shape(self, shape: Shape, tenant: str) -> Rejection | None:
        # Without cards nothing is refused for its size: nodes may still join.
        if self.cards is None or not len(self.cards):
            return None
        branch = self.tree.tenants.get(tenant, QuotaBranch())
        view = TenantView(branch.quota, ResourceAmount(), branch.parent)
        return judge_claim(shape, view, self.cards, tenant_name=tenant, cohorts=self.tree.cohorts)


@dataclass(frozen=True)
class AdmissionDecision:
    """The pod as it is to be stored; kubectl shows the `warnings`."""

    pod: dict[str, Any]
    warnings: tuple[str, ...] = ()


def decide_admission(pod: Json, namespace: str, cluster: ClusterFacts) -> AdmissionDecision:
    """Decide what becomes of a new pod; idempotent.

    Raises:
        BadManifest: the pod's words cannot be read.
        RequestRejection: the pod can never start in this cluster.
        IsolationNotOffered: no card of this cluster is known to isolate as the pod demands.
        PodRejection: the pod was written in the normal form, and counts less than it gets.
    """
    # The API server may ask again after another webhook: the decision starts from the plain pod.
    free = direct.undo_direct(pod)
    claim = _interpret_pod(free, cluster)
    said = {name for one in claim.containers for name in one.dialects}
    if not said or (cluster.dialects is not None and not said <= cluster.dialects):
        return AdmissionDecision(dict(pod), claim.unread)
    stored = claim
    claim = resolve_claim(stored, cluster.cards)
    if names.CLAIM in ((pod.get("metadata") or {}).get("annotations") or {}):
        check_stored(stored, claim)
    _refuse_impossible(claim, namespace, cluster)
    made = write_admitted(free, claim)
    made["metadata"].setdefault("labels", {})[names.MANAGED] = "true"
    warnings = (*claim.unread, *claim.guesses, *claim.notes)
    if cluster.direct and direct.can_bind_directly(made):
        return AdmissionDecision(direct.make_direct(made), warnings)
    gates = made["spec"].get("schedulingGates") or ()
    others = [gate for gate in gates if gate.get("name") != names.GATE]
    made["spec"]["schedulingGates"] = [*others, {"name": names.GATE}]
    return AdmissionDecision(made, warnings)


def _interpret_pod(pod: Json, cluster: ClusterFacts) -> PodClaim:
    """Return the pod's claim."""
    # Errors in a dialect that is not read are not ours to refuse: the system that reads it does.
    try:
        return understand_pod(pod, cluster.facts)
    except GpupoolError as error:
        if cluster.dialects is None:
            raise
        claim = understand_pod(pod, cluster.facts, only=cluster.dialects)
        if claim.containers:
            raise
        return replace(claim, unread=(*claim.unread, f"left as it is: {error.message}"))


def _refuse_impossible(claim: PodClaim, namespace: str, cluster: ClusterFacts) -> None:
    """Raise RequestRejection or IsolationNotOffered for a claim that can never get its cards."""
    tenant = cluster.tree.tenant_of.get(namespace, namespace)
    for one in claim.containers:
        said = cluster.why_never(translate_shape(one, claim.hints).shape, tenant)
        if said is not None:
            kind: type[GpupoolError] = RequestRejection
            if said.dominant is RejectionReason.ISOLATION:
                kind = IsolationNotOffered
            raise kind(f"container {one.container}: {said.sentence}", hint=_choose_hint(said))


def _choose_hint(said: Rejection) -> str:
    # Hints name options of the command line, which an author of manifests does not use.
    if said.dominant is RejectionReason.QUOTA:
        return "an admin can raise it: kubectl edit tenants.gpupool.dev"
    return "" if "--" in said.hint else said.hint


def review_pod(asked: Json, cluster: ClusterFacts) -> dict[str, Any]:
    """Answer an AdmissionReview: a patch, nothing, or a refusal that kubectl prints."""
    request = asked["request"]
    pod = request["object"]
    try:
        decision = decide_admission(pod, request.get("namespace", ""), cluster)
    except GpupoolError as error:
        return _build_answer(
            request["uid"], allowed=False, status={"code": 403, "message": _format_error(error)}
        )
    told: dict[str, Any] = {}
    if decision.warnings:
        # The API server drops longer warnings (admission.k8s.io/v1 allows 256 characters).
        told["warnings"] = [f"gpupool: {text}"[:250] for text in decision.warnings]
    if decision.pod == pod:
        return _build_answer(request["uid"], allowed=True, **told)
    patch = base64.b64encode(json.dumps(_build_patch(pod, decision.pod)).encode()).decode()
    return _build_answer(request["uid"], allowed=True, patchType="JSONPatch", patch=patch, **told)


def _build_answer(uid: str, **said: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, **said},
    }


def _format_error(error: GpupoolError) -> str:
    return f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _build_patch(before: Json, after: Json) -> list[dict[str, Any]]:
    # Both parts as a whole: an `add` inside a part fails where its parent does not exist.
    operations = []
    for part in ("metadata", "spec"):
        if before.get(part) != after.get(part):
            operations.append({"op": "add", "path": f"/{part}", "value": after[part]})
    return operations
