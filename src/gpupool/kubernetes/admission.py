"""What becomes of a pod that is created: our words or foreign ones become the normal form, or it is refused.

A pod that asks for no cards is left alone. One that does gets the normal form (`dialects`), our gate, and our label.
Twice is once, because the API server may ask again after another webhook has changed the pod. Refused is only what no
waiting would change; what is merely in use waits. Shapes: `admission.k8s.io/v1` AdmissionReview. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.base.errors import GpupoolError, NotExpressible, Refused
from gpupool.dialects.contract import PodClaim
from gpupool.dialects.facts import UNKNOWN, NodeFacts
from gpupool.dialects.reading import understand
from gpupool.dialects.shapes import shape_of
from gpupool.dialects.writing import admitted
from gpupool.kubernetes import direct, names
from gpupool.model.quota import UNLIMITED, Amount, Quota
from gpupool.scheduling.admit import judge
from gpupool.scheduling.snapshot import Cards, TenantView

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Cluster:
    """What admission knows of it. Without cards nothing is refused for its size: they may come."""

    cards: Cards | None = None
    facts: NodeFacts = UNKNOWN
    dialects: frozenset[str] | None = None
    """Names of dialects that are taken; None is all. A pod that asks in another is left to whom it was written for."""
    tenant_of: Mapping[str, str] | None = None
    quotas: Mapping[str, Quota] | None = None
    direct: bool = False
    """Whether pods that qualify are left to the controller to bind."""


@dataclass(frozen=True)
class Decision:
    """The pod as it is to be stored; `warnings` are shown by kubectl."""

    pod: dict[str, Any]
    warnings: tuple[str, ...] = ()


def decide(pod: Json, namespace: str, cluster: Cluster) -> Decision:
    """Raises BadManifest, Refused: the classes of `dialects` and of admission on one machine."""
    free = direct.set_free(pod)
    claim = understand(free, cluster.facts)
    said = {name for one in claim.containers for name in one.dialects}
    if not said or (cluster.dialects is not None and not said <= cluster.dialects):
        return Decision(dict(pod))
    _kept(claim)
    _could_ever(claim, namespace, cluster)
    made = admitted(free, claim)
    made["metadata"].setdefault("labels", {})[names.MANAGED] = "true"
    if cluster.direct and direct.qualifies(made):
        return Decision(direct.made(made), (*claim.guesses, *claim.notes))
    gates = [gate for gate in made["spec"].get("schedulingGates") or () if gate.get("name") != names.GATE]
    made["spec"]["schedulingGates"] = [*gates, {"name": names.GATE}]
    return Decision(made, (*claim.guesses, *claim.notes))


def _kept(claim: PodClaim) -> None:
    """Raises NotExpressible for a choice of cards that the scheduler would not keep."""
    for one in claim.containers:
        select = one.ask.select
        if select.uuids or select.not_uuids or select.not_models:
            raise NotExpressible(
                f"container {one.container} names single cards, or models that it does not want; the pool chooses by "
                "models that are wanted and by labels of nodes",
                hint=f"{names.GROUP}/model: L40S,H100, or a nodeSelector",
            )


def _could_ever(claim: PodClaim, namespace: str, cluster: Cluster) -> None:
    """Raises Refused for what this cluster could never give, or its tenant never have."""
    if cluster.cards is None or not len(cluster.cards):
        return
    tenant = (cluster.tenant_of or {}).get(namespace, namespace)
    view = TenantView((cluster.quotas or {}).get(tenant, UNLIMITED), Amount())
    for one in claim.containers:
        said = judge(shape_of(one, claim.hints).shape, view, cluster.cards, tenant_name=tenant)
        if said is not None:
            # What is said of a command line's options helps nobody here.
            raise Refused(f"container {one.container}: {said.sentence}", hint="" if "--" in said.hint else said.hint)


def review(asked: Json, cluster: Cluster) -> dict[str, Any]:
    """The answer to an AdmissionReview: a patch, nothing, or a refusal that kubectl prints."""
    request = asked["request"]
    pod = request["object"]
    try:
        decision = decide(pod, request.get("namespace", ""), cluster)
    except GpupoolError as error:
        return _answer(request["uid"], allowed=False, status={"code": 403, "message": _said(error)})
    if decision.pod == pod:
        return _answer(request["uid"], allowed=True)
    patch = base64.b64encode(json.dumps(_patch(pod, decision.pod)).encode()).decode()
    told = {"warnings": [f"gpupool: {text}"[:250] for text in decision.warnings]} if decision.warnings else {}
    return _answer(request["uid"], allowed=True, patchType="JSONPatch", patch=patch, **told)


def _answer(uid: str, **said: Any) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": uid, **said}}


def _said(error: GpupoolError) -> str:
    return f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _patch(before: Json, after: Json) -> list[dict[str, Any]]:
    """The two parts of a pod that change, each whole: short to read in an audit log, and right for any pod."""
    parts = [part for part in ("metadata", "spec") if before.get(part) != after.get(part)]
    return [{"op": "add", "path": f"/{part}", "value": after[part]} for part in parts]
