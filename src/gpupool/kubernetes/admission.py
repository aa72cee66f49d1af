"""What becomes of a pod that is created: our words or foreign ones become the normal form, or it is refused.

A pod that asks for no cards is left alone. One that does gets the normal form (`dialects`), our gate, and our label.
Twice is once, because the API server may ask again after another webhook has changed the pod. Refused is only what no
waiting would change; what is merely in use waits. Shapes: `admission.k8s.io/v1` AdmissionReview. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from gpupool.base.errors import GpupoolError, Refused
from gpupool.dialects.contract import PodClaim
from gpupool.dialects.facts import UNKNOWN, NodeFacts
from gpupool.dialects.reading import understand
from gpupool.dialects.shapes import shape_of
from gpupool.dialects.writing import admitted
from gpupool.kubernetes import direct, names
from gpupool.kubernetes.tenants import TenantTree
from gpupool.model.claim import Reason, Rejection, Shape
from gpupool.model.quota import Amount, Branch
from gpupool.scheduling.admit import judge
from gpupool.scheduling.snapshot import Cards, TenantView

Json = Mapping[str, Any]
QUESTIONS = 1024
"""So many claims are remembered with what was said of them, until something about the cluster changes."""


@dataclass(frozen=True)
class Cluster:
    """What admission knows of it. Without cards nothing is refused for its size: they may come."""

    cards: Cards | None = None
    facts: NodeFacts = UNKNOWN
    dialects: frozenset[str] | None = None
    """Names of dialects that are taken; None is all. A pod that asks in another is left to whom it was written for."""
    tree: TenantTree = field(default_factory=TenantTree)
    direct: bool = False
    """Whether pods that qualify are left to the controller to bind."""

    @cached_property
    def never(self) -> Callable[[Shape, str], Rejection | None]:
        """Why a tenant could never have one; None where it could, or nobody knows. Pods repeat their questions."""
        return lru_cache(QUESTIONS)(self._never)

    def _never(self, shape: Shape, tenant: str) -> Rejection | None:
        if self.cards is None or not len(self.cards):
            return None
        branch = self.tree.tenants.get(tenant, Branch())
        view = TenantView(branch.quota, Amount(), branch.parent)
        return judge(shape, view, self.cards, tenant_name=tenant, cohorts=self.tree.cohorts)


@dataclass(frozen=True)
class Decision:
    """The pod as it is to be stored; `warnings` are shown by kubectl."""

    pod: dict[str, Any]
    warnings: tuple[str, ...] = ()


def decide(pod: Json, namespace: str, cluster: Cluster) -> Decision:
    """Raises BadManifest, Refused: the classes of `dialects` and of admission on one machine."""
    free = direct.set_free(pod)
    claim = _understood(free, cluster)
    said = {name for one in claim.containers for name in one.dialects}
    if not said or (cluster.dialects is not None and not said <= cluster.dialects):
        return Decision(dict(pod), claim.unread)
    _could_ever(claim, namespace, cluster)
    made = admitted(free, claim)
    made["metadata"].setdefault("labels", {})[names.MANAGED] = "true"
    warnings = (*claim.unread, *claim.guesses, *claim.notes)
    if cluster.direct and direct.qualifies(made):
        return Decision(direct.made(made), warnings)
    gates = [gate for gate in made["spec"].get("schedulingGates") or () if gate.get("name") != names.GATE]
    made["spec"]["schedulingGates"] = [*gates, {"name": names.GATE}]
    return Decision(made, warnings)


def _understood(pod: Json, cluster: Cluster) -> PodClaim:
    """The claim. Words of a dialect that is not taken are not refused: whoever takes them judges them."""
    try:
        return understand(pod, cluster.facts)
    except GpupoolError as error:
        if cluster.dialects is None:
            raise
        claim = understand(pod, cluster.facts, only=cluster.dialects)
        if claim.containers:
            raise
        return replace(claim, unread=(*claim.unread, f"left as it is: {error.message}"))


def _could_ever(claim: PodClaim, namespace: str, cluster: Cluster) -> None:
    """Raises Refused for what this cluster could never give, or its tenant never have."""
    tenant = cluster.tree.tenant_of.get(namespace, namespace)
    for one in claim.containers:
        said = cluster.never(shape_of(one, claim.hints).shape, tenant)
        if said is not None:
            raise Refused(f"container {one.container}: {said.sentence}", hint=_hint(said))


def _hint(said: Rejection) -> str:
    """What is said of a command line's options helps nobody here."""
    if said.dominant is Reason.QUOTA:
        return "an admin can raise it: kubectl edit tenants.gpupool.dev"
    return "" if "--" in said.hint else said.hint


def review(asked: Json, cluster: Cluster) -> dict[str, Any]:
    """The answer to an AdmissionReview: a patch, nothing, or a refusal that kubectl prints."""
    request = asked["request"]
    pod = request["object"]
    try:
        decision = decide(pod, request.get("namespace", ""), cluster)
    except GpupoolError as error:
        return _answer(request["uid"], allowed=False, status={"code": 403, "message": _said(error)})
    told = {"warnings": [f"gpupool: {text}"[:250] for text in decision.warnings]} if decision.warnings else {}
    if decision.pod == pod:
        return _answer(request["uid"], allowed=True, **told)
    patch = base64.b64encode(json.dumps(_patch(pod, decision.pod)).encode()).decode()
    return _answer(request["uid"], allowed=True, patchType="JSONPatch", patch=patch, **told)


def _answer(uid: str, **said: Any) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": uid, **said}}


def _said(error: GpupoolError) -> str:
    return f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _patch(before: Json, after: Json) -> list[dict[str, Any]]:
    """The two parts of a pod that change, each whole: short to read in an audit log, and right for any pod."""
    parts = [part for part in ("metadata", "spec") if before.get(part) != after.get(part)]
    return [{"op": "add", "path": f"/{part}", "value": after[part]} for part in parts]
