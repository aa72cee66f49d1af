"""What the controller reads of a pod: how much it asks, where it may go, how far it has come.

Only pods in the normal form are read (see `admission`). Their resources cannot be changed after creation; annotations
can, by their tenant, so the claim in the annotation is taken only where it adds up to the totals in the resources.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpupool.base.errors import BadInput, GpupoolError
from gpupool.base.units import MIB, WHOLE
from gpupool.kubernetes import names, quantities
from gpupool.kubernetes.eligible import Constraint
from gpupool.model.claim import ANYWHERE, Shape, Sharing, Within

Json = Mapping[str, Any]
ENDED = ("Succeeded", "Failed")
NS = 10**9


class BadClaim(BadInput):
    """A pod whose claim cannot be read; a tenant has changed it, or it never went through admission."""


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
    gated: bool = True
    ended: bool = False
    deleting: bool = False
    priority: int = 0
    preemptible: bool = False
    created_ns: int = 0
    started_ns: int | None = None
    """When its node took it in."""
    max_seconds: int | None = None
    gang: str = ""
    gang_size: int = 0
    gang_minimum: int = 0
    problem: str = ""
    """Why its claim cannot be read; then it asks nothing, and waits."""

    def shape(self, number: int) -> Shape:
        """What the so-manieth container claims; the first one carries the pod's processors and memory."""
        shape = self.asks[number].shape
        return shape if number else replace(shape, cpu_milli=self.cpu_milli, host_bytes=self.host_bytes)

    @property
    def waits(self) -> bool:
        """It has no cards and may get some."""
        return self.gated and not self.deleting and not self.ended and not self.problem


def read_pod(pod: Json) -> Pod:
    """The pod as the API server has it. Never raises for what a tenant wrote: `problem` says what is wrong."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    notes = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    cpu, memory = requests(spec)
    found = Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        version=meta["resourceVersion"],
        asks=(),
        cpu_milli=cpu,
        host_bytes=memory,
        constraint=Constraint.of(spec),
        node=spec.get("nodeName") or "",
        gated=any(gate.get("name") == names.GATE for gate in spec.get("schedulingGates") or ()),
        ended=status.get("phase") in ENDED,
        deleting=meta.get("deletionTimestamp") is not None,
        priority=spec.get("priority") or 0,
        created_ns=_ns(meta["creationTimestamp"]),
        started_ns=_ns(status["startTime"]) if status.get("startTime") else None,
        max_seconds=spec.get("activeDeadlineSeconds"),
        preemptible=_preemptible(notes, meta),
    )
    try:
        gang, size, minimum = _gang(notes)
        name = f"{found.namespace}/{gang}" if gang else ""
        return replace(found, asks=asks_of(pod), gang=name, gang_size=size, gang_minimum=minimum)
    except GpupoolError as error:
        return replace(found, problem=str(error))


def asks_of(pod: Json) -> tuple[Ask, ...]:
    """Per container that has a slot what it claims. Raises BadClaim."""
    told = _claim(pod)
    containers = {one["name"]: one for one in _containers(pod["spec"])}
    slotted = {name: limits for name, one in containers.items() if names.SLOT in (limits := _limits(one))}
    if set(told["containers"]) != set(slotted):
        raise BadClaim(
            f"annotation {names.CLAIM} is about {_said(told['containers'])}, slots are asked for by {_said(slotted)}",
            hint="annotations of gpupool.dev are not for tenants to change; create the pod anew",
        )
    return tuple(Ask(name, _shape(name, told, told["containers"][name], limits)) for name, limits in slotted.items())


def _claim(pod: Json) -> dict[str, Any]:
    text = (pod["metadata"].get("annotations") or {}).get(names.CLAIM)
    try:
        told = json.loads(text or "")
        if not isinstance(told.get("containers"), dict):
            raise TypeError
    except (ValueError, TypeError, AttributeError):
        raise BadClaim(
            f"annotation {names.CLAIM} {'is missing' if text is None else 'is not what admission wrote'}",
            hint="create the pod anew; is the admission of gpupool in place? kubectl gpupool doctor",
        ) from None
    return dict(told)


def _shape(container: str, told: Json, one: Json, limits: Mapping[str, str]) -> Shape:
    try:
        count, milli, size = int(one["count"]), int(one["gpuMilli"]), one.get("memoryBytes")
        sharing = Sharing(one.get("sharing", Sharing.FIXED))
        within = told.get("within") or {}
        near = Within(within.get("required"), within.get("preferred")) if within else ANYWHERE
        totals = quantities.whole(limits.get(names.GPU_MILLI, 0)), quantities.whole(limits.get(names.MEMORY, 0))
    except (KeyError, TypeError, ValueError):
        raise BadClaim(f"annotation {names.CLAIM} says nothing that can be read of {container}") from None
    claimed = count * milli, count * (int(size) if size is not None else 0)
    if claimed != totals or not (0 < milli <= WHOLE and count > 0):
        raise BadClaim(
            f"{container}: {names.CLAIM} adds up to {claimed[0]} gpu-milli and {claimed[1] // MIB} MiB, its resources "
            f"are {totals[0]} and {totals[1] // MIB} MiB",
            hint="annotations of gpupool.dev are not for tenants to change; create the pod anew",
        )
    return Shape(milli, size, count, told.get("model"), sharing=sharing, within=near)


def _preemptible(notes: Mapping[str, str], meta: Json) -> bool:
    """What it says; a pod that says nothing is one where its owner will make another in its place."""
    owned = any(owner.get("controller") for owner in meta.get("ownerReferences") or ())
    return notes.get(names.PREEMPTIBLE, "true" if owned else "false") == "true"


def _gang(notes: Mapping[str, str]) -> tuple[str, int, int]:
    """(name, members, of which at least so many start together)."""
    name = notes.get(names.GANG, "")
    if not name:
        return "", 0, 0
    size = _count(notes, names.GANG_SIZE, 1)
    minimum = _count(notes, names.GANG_MINIMUM, size)
    if minimum > size:
        raise BadClaim(f"{names.GANG_MINIMUM} {minimum} is more than {names.GANG_SIZE} {size}")
    return name, size, minimum


def _count(notes: Mapping[str, str], key: str, otherwise: int) -> int:
    text = notes.get(key, str(otherwise))
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000):
        raise BadClaim(f"{key}: {text!r} is not a number of pods", hint="write it like 8")
    return int(text)


# --- processors and main memory ---------------------------------------------------------------


def requests(spec: Json) -> tuple[int, int]:
    """(milli-processors, bytes) that the scheduler counts for the pod.

    Containers and sidecars run together; an ordinary init container runs with the sidecars before it. The larger of
    both, and the runtime's overhead on top (Kubernetes, "Sidecar containers: resource sharing within containers").
    """
    together = [_requests(one) for one in spec.get("containers") or ()]
    beside, most = (0, 0), (0, 0)
    for one in spec.get("initContainers") or ():
        asked = _requests(one)
        if one.get("restartPolicy") == "Always":
            beside = _sum(beside, asked)
            most = _larger(most, beside)
        else:
            most = _larger(most, _sum(beside, asked))
    total = beside
    for asked in together:
        total = _sum(total, asked)
    return _sum(_larger(total, most), _amount(spec.get("overhead") or {}))


def _requests(container: Json) -> tuple[int, int]:
    resources = container.get("resources") or {}
    return _amount({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amount(found: Mapping[str, str]) -> tuple[int, int]:
    return quantities.milli(found.get("cpu", 0)), quantities.whole(found.get("memory", 0))


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _larger(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return max(a[0], b[0]), max(a[1], b[1])


# --- parts ------------------------------------------------------------------------------------


def _containers(spec: Json) -> Iterator[Json]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _limits(container: Json) -> Mapping[str, str]:
    return (container.get("resources") or {}).get("limits") or {}


def _said(found: Mapping[str, Any]) -> str:
    return ", ".join(sorted(found)) or "nobody"


def _ns(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp()) * NS
