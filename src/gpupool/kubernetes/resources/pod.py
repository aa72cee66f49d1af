"""What the controller reads of a pod: how much it asks, where it may go, how far it has come.

Only pods in the normal form are read (`dialects.manifests.normal`). Their resources cannot be
changed after creation; annotations can, by their tenant, so the claim in the annotation is taken
only where it adds up to the totals in the resources.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.dialects.contract import GangHint, PodClaim
from gpupool.dialects.manifests.normal import read_admitted
from gpupool.dialects.shapes import translate_shape
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.node_affinity import NodeConstraint
from gpupool.kubernetes.resources.pod_constraints import (
    NOTHING,
    PodConstraints,
    read_constraints,
    read_pod_level,
)
from gpupool.kubernetes.resources.pod_requests import (
    KINDS,
    Resources,
    copy_containers,
    resources_as_said,
    sum_requests,
)
from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint

Json = Mapping[str, Any]
_NONE: Mapping[str, str] = MappingProxyType({})
#: Characters of a gang's name. The uid of a seat for a member to come has it beside a namespace and
#: the uid of a pod, and statements to a gpupool server take uids of 253 characters.
LONGEST_GANG = 120
_NO_NODE = re.compile(r"0/\d+ nodes are available")


@dataclass(frozen=True)
class ContainerShape:
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
    asks: tuple[ContainerShape, ...]
    cpu_milli: int
    host_bytes: int
    constraint: NodeConstraint
    node: str = ""
    #: The service account that it runs as.
    account: str = ""
    #: Whether it is not released yet: it has our gate, or is direct and not bound.
    gated: bool = True
    #: Whether the controller binds it.
    direct: bool = False
    ended: bool = False
    failed: bool = False
    deleting: bool = False
    priority: int = 0
    within: TopologyConstraint = ANYWHERE
    #: Whether it may be evicted. By default, if it has an owner that creates a replacement.
    preemptible: bool = False
    #: Uid of the controller that creates a replacement; empty if there is none.
    owner: str = ""
    #: Why kube-scheduler does not bind it, in kube-scheduler's words.
    refusal: str = ""
    #: Reason and message of its condition, as it stands in the object.
    written_condition: tuple[str, str] = field(default=("", ""), compare=False)
    #: Whether it has the annotation with its cards, which a release writes.
    placed: bool = field(default=False, compare=False)
    #: Generation of its ledger from which on a seat of it is withdrawn. A controller that knows
    #: only older generations must not release it.
    withdrawn_at: int = 0
    #: Why its node's kubelet rejected it, in the kubelet's words.
    kubelet_rejection: str = ""
    created_ns: int = 0
    #: When its kubelet accepted it, in nanoseconds since the epoch.
    started_ns: int | None = None
    #: Whether its containers run and are ready: a controller that creates one pod after the other
    #: creates the next one then.
    ready: bool = False
    max_seconds: int | None = None
    gang: str = ""
    gang_size: int = 0
    gang_minimum: int = 0
    #: The reservation that it names; only one of its tenant counts.
    reservation: str = ""
    needs: PodConstraints = NOTHING
    #: Its labels while it is not bound; afterwards no predicate of it is evaluated.
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: Why its claim cannot be read; it requests nothing then, and waits.
    problem: str = ""

    def shape(self, number: int) -> Shape:
        """Return what the container of that number claims."""
        # CPUs and memory are requested once per pod: the first container's claim carries them.
        shape = self.asks[number].shape
        return shape if number else _on_host(shape, self.cpu_milli, self.host_bytes)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and no replacement is created."""
        return self.ended and not (self.failed and self.owner)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no cards and may get some."""
        return self.gated and not self.deleting and not self.ended and not self.problem


@lru_cache(KINDS)
def _on_host(shape: Shape, cpu_milli: int, host_bytes: int) -> Shape:
    # Cached, so that equal pods share one object: shapes are compared and hashed all the time.
    return replace(shape, cpu_milli=cpu_milli, host_bytes=host_bytes)


@dataclass(frozen=True)
class ParsedClaim:
    """The part of a pod that follows from its claim alone: equal for all pods of one claim."""

    asks: tuple[ContainerShape, ...] = ()
    within: TopologyConstraint = ANYWHERE
    preemptible: bool | None = None
    gang: str = ""
    #: Members of the gang; if unknown, as many as start together.
    size: int = 0
    minimum: int = 0


def read_pod(pod: Json) -> Pod:
    """Read a pod. Never raises for what a tenant wrote: `problem` says what is wrong."""
    meta = pod["metadata"]
    spec = pod["spec"]
    status = pod.get("status") or {}
    containers, first = (
        tuple(map(resources_as_said, spec.get(key) or ()))
        for key in ("containers", "initContainers")
    )
    used = sum_requests(
        containers,
        first,
        tuple((spec.get("overhead") or {}).items()),
        tuple(read_pod_level(spec).items()),
    )
    direct = spec.get("schedulerName") == names.DIRECT
    owner = next(
        (one["uid"] for one in meta.get("ownerReferences") or () if one.get("controller")), ""
    )
    asked, problem = _read_claim(meta, containers, first)
    return Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        version=meta["resourceVersion"],
        asks=asked.asks,
        cpu_milli=used.cpu_milli,
        host_bytes=used.host_bytes,
        constraint=NodeConstraint.of(
            spec, shares=not all(_is_whole(one.shape) for one in asked.asks)
        ),
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
        refusal=scheduler_rejection(status),
        written_condition=condition_of(status),
        placed=names.PLACED in (meta.get("annotations") or {}),
        withdrawn_at=_read_withdrawn((meta.get("annotations") or {}).get(names.WITHDRAWN, "")),
        kubelet_rejection=kubelet_rejection(status),
        created_ns=_read_ns(meta["creationTimestamp"]),
        started_ns=_read_ns(status["startTime"]) if status.get("startTime") else None,
        ready=any(
            one.get("type") == "Ready" and one.get("status") == "True"
            for one in status.get("conditions") or ()
        ),
        max_seconds=spec.get("activeDeadlineSeconds"),
        gang=f"{meta['namespace']}/{asked.gang}" if asked.gang else "",
        gang_size=asked.size,
        gang_minimum=asked.minimum,
        reservation=(meta.get("labels") or {}).get(names.RESERVATION, ""),
        needs=read_constraints(pod, used.resources),
        labels=_NONE if spec.get("nodeName") else meta.get("labels") or _NONE,
        problem=problem,
    )


def asks_of(claim: PodClaim) -> tuple[ContainerShape, ...]:
    """Return the shape of each container that has a slot."""
    shapes = []
    for one in claim.containers:
        shape = translate_shape(one, claim.hints).shape
        if shape.profile is not None:
            # A ResourceQuota counts the pod's totals, and a tenant may write those by hand. The
            # card says how much memory a partition has, so a card with more is not for this pod.
            shape = replace(shape, partition_bytes=one.ask.memory_bytes or 0)
        shapes.append(ContainerShape(one.container, shape))
    return tuple(shapes)


def _read_claim(
    meta: Json, containers: tuple[Resources, ...], first: tuple[Resources, ...]
) -> tuple[ParsedClaim, str]:
    """Return the claim, and what is wrong with it."""
    try:
        return _parse_claim((meta.get("annotations") or {}).get(names.CLAIM), containers, first), ""
    except GpupoolError as error:
        return ParsedClaim(), str(error)


@lru_cache(KINDS)
def _parse_claim(
    claim: str | None, containers: tuple[Resources, ...], first: tuple[Resources, ...]
) -> ParsedClaim:
    """Parse a claim. Raises what `read_admitted` does."""
    # Cached: a pod is read again at each of its changes, and most pods have an equal sibling.
    annotations = {} if claim is None else {names.CLAIM: claim}
    spec = {"containers": copy_containers(containers), "initContainers": copy_containers(first)}
    admitted = read_admitted({"metadata": {"annotations": annotations}, "spec": spec})
    gang = admitted.hints.gang or GangHint("")
    size = gang.size or gang.minimum or 1
    return ParsedClaim(
        asks_of(admitted),
        admitted.hints.within or ANYWHERE,
        admitted.hints.preemptible,
        _shorten_gang(gang.name),
        size if gang.name else 0,
        min(gang.minimum or size, size) if gang.name else 0,
    )


def _shorten_gang(name: str) -> str:
    """Return the name, or its beginning with what tells it from others where it is too long."""
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name if len(name) <= LONGEST_GANG else f"{name[: LONGEST_GANG - 9]}-{mark}"


def _read_withdrawn(said: str) -> int:
    # A tenant may write this annotation too. Its only effect is that the release of its own pod
    # reads the ledger once more.
    generation = said.partition(".")[0]
    return int(generation) if re.fullmatch("[0-9]{1,18}", generation) else 0


def _is_whole(shape: Shape) -> bool:
    return shape.is_whole and shape.memory_bytes is None and shape.memory_milli is None


def condition_of(status: Json) -> tuple[str, str]:
    """Return reason and message of the condition that the pod is not scheduled; empty if it is."""
    for one in status.get("conditions") or ():
        if one.get("type") == names.CONDITION and one.get("status") == "False":
            return str(one.get("reason", "")), str(one.get("message", ""))
    return "", ""


def scheduler_rejection(status: Json) -> str:
    """Return why kube-scheduler does not bind the pod; empty if it has not said so."""
    # Our own reason stands in the same condition before the release; the form tells them apart.
    reason, message = condition_of(status)
    return message if reason == "SchedulerError" or _NO_NODE.match(message) is not None else ""


def kubelet_rejection(status: Json) -> str:
    """Return why the kubelet rejected the bound pod; empty if it did not. Such a pod never runs."""
    reason = str(status.get("reason", ""))
    is_rejection = reason.startswith("OutOf") or reason == "UnexpectedAdmissionError"
    if status.get("phase") != "Failed" or not is_rejection:
        return ""
    return f"{reason}: {status.get('message', '')}"


def _read_ns(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp()) * NANOS_PER_SECOND
