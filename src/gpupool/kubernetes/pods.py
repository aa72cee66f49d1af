"""What the controller reads of a pod: how much it asks, where it may go, how far it has come.

Only pods in the normal form are read (`dialects.normal`). Their resources cannot be changed after creation; annotations
can, by their tenant, so the claim in the annotation is taken only where it adds up to the totals in the resources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.dialects.contract import GangHint, PodClaim
from gpupool.dialects.normal import read_admitted
from gpupool.dialects.shapes import shape_of
from gpupool.kubernetes import names
from gpupool.kubernetes.amounts import KINDS, Resources, resources_as_said, used_by, written
from gpupool.kubernetes.eligible import Constraint
from gpupool.kubernetes.needs import NOTHING, Needs, needs_of
from gpupool.model.claim import ANYWHERE, Shape, Within

Json = Mapping[str, Any]
NS = 10**9
_NONE: Mapping[str, str] = MappingProxyType({})
_NO_NODE = re.compile(r"0/\d+ nodes are available")


@dataclass(frozen=True)
class Ask:
    """One container's claim."""

    container: str
    shape: Shape


@dataclass(frozen=True)
class Pod:
    """One managed pod."""

    uid: str
    namespace: str
    name: str
    version: str
    asks: tuple[Ask, ...]
    cpu_milli: int
    host_bytes: int
    constraint: Constraint
    node: str = ""
    account: str = ""
    """The service account that it runs as."""
    gated: bool = True
    """It was not let go: it wears our gate, or is direct and not bound."""
    direct: bool = False
    """The controller binds it."""
    ended: bool = False
    failed: bool = False
    deleting: bool = False
    priority: int = 0
    within: Within = ANYWHERE
    preemptible: bool = False
    """Where nothing is said: whether somebody makes another one in its place."""
    owner: str = ""
    """The uid of who makes another one in its place, where somebody does."""
    refusal: str = ""
    """Why kube-scheduler does not bind it, in its own words."""
    said: tuple[str, str] = field(default=("", ""), compare=False)
    """Reason and sentence for which it waits, as people read them on it."""
    placed: bool = field(default=False, compare=False)
    """It says where its cards are, as a controller writes it on whomever it lets go."""
    withdrawn_at: int = 0
    """The generation of its ledger at which a seat was taken from it: older knowledge does not let it go."""
    turned_away: str = ""
    """Why its node's kubelet did not take it in, in the kubelet's own words."""
    created_ns: int = 0
    started_ns: int | None = None
    """When its node took it in."""
    ready: bool = False
    """Its containers run and are ready: a controller that makes one pod after the other makes the next one then."""
    max_seconds: int | None = None
    gang: str = ""
    gang_size: int = 0
    gang_minimum: int = 0
    reservation: str = ""
    """The reservation that it names: its tenant's, if there is one."""
    needs: Needs = NOTHING
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Of one that is not bound yet."""
    problem: str = ""
    """Why its claim cannot be read; then it asks nothing, and waits."""

    def shape(self, number: int) -> Shape:
        """What the so-manieth container claims; the first one carries the pod's processors and memory."""
        shape = self.asks[number].shape
        return shape if number else _on_host(shape, self.cpu_milli, self.host_bytes)

    @property
    def over(self) -> bool:
        """It has ended, and nobody makes another in its place."""
        return self.ended and not (self.failed and self.owner)

    @property
    def waits(self) -> bool:
        """It has no cards and may get some."""
        return self.gated and not self.deleting and not self.ended and not self.problem


@lru_cache(KINDS)
def _on_host(shape: Shape, cpu_milli: int, host_bytes: int) -> Shape:
    """One for all pods that ask the same: a shape is compared with others, and its hash reckoned once."""
    return replace(shape, cpu_milli=cpu_milli, host_bytes=host_bytes)


@dataclass(frozen=True)
class Asked:
    """What the claim of a pod says, whichever pod bears it."""

    asks: tuple[Ask, ...] = ()
    within: Within = ANYWHERE
    preemptible: bool | None = None
    gang: str = ""
    size: int = 0
    """One of unknown size has as many members as start together."""
    minimum: int = 0


def read_pod(pod: Json) -> Pod:
    """The pod as the API server has it. Never raises for what a tenant wrote: `problem` says what is wrong."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    containers, first = (tuple(map(resources_as_said, spec.get(key) or ())) for key in ("containers", "initContainers"))
    used = used_by(containers, first, tuple((spec.get("overhead") or {}).items()))
    direct = spec.get("schedulerName") == names.DIRECT
    owner = next((one["uid"] for one in meta.get("ownerReferences") or () if one.get("controller")), "")
    asked, problem = _asked(meta, containers, first)
    return Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        version=meta["resourceVersion"],
        asks=asked.asks,
        cpu_milli=used.cpu_milli,
        host_bytes=used.host_bytes,
        constraint=Constraint.of(spec, shares=not all(_is_whole(one.shape) for one in asked.asks)),
        node=spec.get("nodeName") or "",
        account=spec.get("serviceAccountName") or "",
        gated=(direct and not spec.get("nodeName"))
        or any(gate.get("name") == names.GATE for gate in spec.get("schedulingGates") or ()),
        direct=direct,
        ended=status.get("phase") in names.ENDED,
        failed=status.get("phase") == "Failed",
        deleting=meta.get("deletionTimestamp") is not None,
        priority=spec.get("priority") or 0,
        within=asked.within,
        preemptible=bool(owner) if asked.preemptible is None else asked.preemptible,
        owner=owner,
        refusal=refusal(status),
        said=said(status),
        placed=names.PLACED in (meta.get("annotations") or {}),
        withdrawn_at=_withdrawn_at((meta.get("annotations") or {}).get(names.WITHDRAWN, "")),
        turned_away=turned_away(status),
        created_ns=_ns(meta["creationTimestamp"]),
        started_ns=_ns(status["startTime"]) if status.get("startTime") else None,
        ready=any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()),
        max_seconds=spec.get("activeDeadlineSeconds"),
        gang=f"{meta['namespace']}/{asked.gang}" if asked.gang else "",
        gang_size=asked.size,
        gang_minimum=asked.minimum,
        reservation=(meta.get("labels") or {}).get(names.RESERVATION, ""),
        needs=needs_of(pod, used.resources),
        labels=_NONE if spec.get("nodeName") else meta.get("labels") or _NONE,
        problem=problem,
    )


def asks_of(claim: PodClaim) -> tuple[Ask, ...]:
    """Per container that has a slot what it claims."""
    return tuple(Ask(one.container, shape_of(one, claim.hints).shape) for one in claim.containers)


def _asked(meta: Json, containers: tuple[Resources, ...], first: tuple[Resources, ...]) -> tuple[Asked, str]:
    """And what is wrong with it."""
    try:
        return _asked_by((meta.get("annotations") or {}).get(names.CLAIM), containers, first), ""
    except GpupoolError as error:
        return Asked(), str(error)


@lru_cache(KINDS)
def _asked_by(claim: str | None, containers: tuple[Resources, ...], first: tuple[Resources, ...]) -> Asked:
    """Read once for all pods of a kind, and for all states of each. Raises what `read_admitted` does."""
    annotations = {} if claim is None else {names.CLAIM: claim}
    spec = {"containers": written(containers), "initContainers": written(first)}
    admitted = read_admitted({"metadata": {"annotations": annotations}, "spec": spec})
    gang = admitted.hints.gang or GangHint("")
    size = gang.size or gang.minimum or 1
    return Asked(
        asks_of(admitted),
        admitted.hints.within or ANYWHERE,
        admitted.hints.preemptible,
        gang.name,
        size if gang.name else 0,
        min(gang.minimum or size, size) if gang.name else 0,
    )


def _withdrawn_at(said: str) -> int:
    """Its tenant may write it too: then its own release asks for the ledger once more."""
    generation = said.partition(".")[0]
    return int(generation) if re.fullmatch("[0-9]{1,18}", generation) else 0


def _is_whole(shape: Shape) -> bool:
    return shape.whole and shape.memory_bytes is None and shape.memory_milli is None


def said(status: Json) -> tuple[str, str]:
    """Reason and message of why the pod is not bound, whoever wrote them."""
    found: Json = next((one for one in status.get("conditions") or () if one.get("type") == names.CONDITION), {})
    return (str(found.get("reason", "")), str(found.get("message", ""))) if found.get("status") == "False" else ("", "")


def refusal(status: Json) -> str:
    """kube-scheduler's last word of why not. Its form tells it from ours, which stands in the same place before."""
    reason, message = said(status)
    return message if reason == "SchedulerError" or _NO_NODE.match(message) is not None else ""


def turned_away(status: Json) -> str:
    """The kubelet's word where a node had no room for the pod any more when it was bound: it never runs then."""
    reason = str(status.get("reason", ""))
    its = status.get("phase") == "Failed" and (reason.startswith("OutOf") or reason == "UnexpectedAdmissionError")
    return f"{reason}: {status.get('message', '')}" if its else ""


def _ns(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp()) * NS
