"""Pods inside other objects: where their templates are, how many there are, and which of them start together.

Knows the shape of the objects, no word of any dialect: so not which members of a gang ask for cards.
Sources: Kubernetes' API reference; kubeflow/training-operator
and mpi-operator (`*ReplicaSpecs`), ray-project/kuberay, kubernetes-sigs/lws and jobset, volcano-sh/apis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpupool.base.errors import BadManifest
from gpupool.dialects.contract import NO_HINTS, GangHint, Hints
from gpupool.dialects.pod import Path, dotted, mapping, sequence

EACH, DAEMON = "*", "daemon"
MOST = 100_000


@dataclass(frozen=True)
class Template:
    """One pod template: its place in the document, and so many pods of it (None: as many as there are nodes)."""

    path: Path
    kind: str
    name: str
    pod: Mapping[str, Any]
    namespace: str = ""
    role: str | None = None
    replicas: int | None = 1
    hints: Hints = NO_HINTS
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Where templates are (`*` is each key or element), and where their number is, beside the template or above."""

    template: tuple[str, ...]
    replicas: tuple[str, ...] | None = None
    role: str | None = None


_RUNTIME = (
    _Place(
        ("spec", "template", "spec", "replicatedJobs", EACH, "template", "spec", "template"),
        ("spec", "template", "spec", "replicatedJobs", EACH, "replicas"),
    ),
)
_ONE = (_Place(("spec", "template"), ("spec", "replicas")),)
_PLACES: Mapping[str, tuple[_Place, ...]] = {
    "Pod": (_Place(()),),
    "PodTemplate": (_Place(("template",)),),
    "Deployment": _ONE,
    "ReplicaSet": _ONE,
    "ReplicationController": _ONE,
    "StatefulSet": _ONE,
    "DaemonSet": (_Place(("spec", "template"), None, DAEMON),),
    "Job": (_Place(("spec", "template"), ("spec", "parallelism")),),
    "CronJob": (_Place(("spec", "jobTemplate", "spec", "template"), ("spec", "jobTemplate", "spec", "parallelism")),),
    "LeaderWorkerSet": (
        _Place(("spec", "leaderWorkerTemplate", "leaderTemplate"), None, "leader"),
        _Place(("spec", "leaderWorkerTemplate", "workerTemplate"), None, "worker"),
    ),
    "RayCluster": (
        _Place(("spec", "headGroupSpec", "template"), None, "head"),
        _Place(("spec", "workerGroupSpecs", EACH, "template"), ("spec", "workerGroupSpecs", EACH, "replicas")),
    ),
    "JobSet": (
        _Place(
            ("spec", "replicatedJobs", EACH, "template", "spec", "template"),
            ("spec", "replicatedJobs", EACH, "replicas"),
        ),
    ),
    "TrainingRuntime": _RUNTIME,
    "ClusterTrainingRuntime": _RUNTIME,
    "VolcanoJob": (_Place(("spec", "tasks", EACH, "template"), ("spec", "tasks", EACH, "replicas")),),
}
_KUBEFLOW = {
    "MPIJob": "mpiReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
_RAY = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
KINDS = tuple(sorted({*_PLACES, *_KUBEFLOW, *_RAY, "AppWrapper", "List"} - {"VolcanoJob"}))


def templates(document: object, path: Path = ()) -> list[Template]:
    """Every pod template of a document, with where it is; none of an object that has no pods. Raises BadManifest."""
    body = mapping(document, path)
    kind = str(body.get("kind") or "")
    if not kind:
        raise BadManifest(
            f"{dotted(path) if path else 'the document'} has no kind",
            hint="a manifest has apiVersion and kind",
            path=path,
        )
    if kind == "List":
        items = sequence(body.get("items"), (*path, "items"))
        return [one for n, item in enumerate(items) for one in templates(item, (*path, "items", n))]
    if kind == "AppWrapper":
        return list(_wrapped(body, path))
    if kind == "Job" and str(body.get("apiVersion", "")).startswith("batch.volcano.sh"):
        return _together(body, kind, [*_found(body, _PLACES["VolcanoJob"], kind, path)])
    found = list(_found(body, _places(body, kind), kind, path))
    return _together(body, kind, found) if kind in _GANGS else found


def _wrapped(body: Mapping[str, Any], path: Path) -> Iterator[Template]:
    """Templates of the objects inside an AppWrapper."""
    at: Path = (*path, "spec", "components")
    for number, given in enumerate(sequence(mapping(body.get("spec"), (*path, "spec")).get("components"), at)):
        inner = mapping(given, (*at, number)).get("template")
        if inner is not None:
            yield from templates(inner, (*at, number, "template"))


def _places(body: Mapping[str, Any], kind: str) -> tuple[_Place, ...]:
    if kind in _KUBEFLOW:
        roles = ("spec", _KUBEFLOW[kind], EACH)
        return (_Place((*roles, "template"), (*roles, "replicas")),)
    if kind in _RAY:
        inner = ("spec", _RAY[kind])
        return tuple(
            replace(
                place,
                template=(*inner, *place.template[1:]),
                replicas=None if place.replicas is None else (*inner, *place.replicas[1:]),
            )
            for place in _PLACES["RayCluster"]
        )
    known = _PLACES.get(kind)
    spec = body.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    inside = template.get("spec") if isinstance(template, Mapping) else None
    return known or (_ONE if isinstance(inside, Mapping) and "containers" in inside else ())


def _found(body: Mapping[str, Any], places: Sequence[_Place], kind: str, path: Path) -> Iterator[Template]:
    meta = mapping(body.get("metadata"), (*path, "metadata"))
    name = str(meta.get("name") or meta.get("generateName") or "unnamed")
    for place in places:
        for where, pod in _walk(body, place.template, path):
            at = where[len(path) :]
            replicas = None if place.role == DAEMON else _number(body, place, at, path)
            space = str(meta.get("namespace") or "")
            yield Template(where, kind, name, mapping(pod, where), space, _role(body, place, at), replicas)


def _walk(value: Any, steps: Sequence[str], path: Path) -> Iterator[tuple[Path, Any]]:
    if not steps:
        if value is not None:
            yield path, value
        return
    step, rest = steps[0], steps[1:]
    if step != EACH:
        yield from _walk(mapping(value, path).get(step), rest, (*path, step))
    elif isinstance(value, Mapping):
        for key in value:
            yield from _walk(value[key], rest, (*path, str(key)))
    else:
        for number, one in enumerate(sequence(value, path)):
            yield from _walk(one, rest, (*path, number))


def _number(body: Mapping[str, Any], place: _Place, where: Path, path: Path) -> int:
    if place.replicas is None:
        return 1
    steps = [at if step == EACH else step for step, at in zip(place.replicas, where, strict=False)]
    value: Any = body
    for step in [*steps, *place.replicas[len(steps) :]]:
        value = value[step] if isinstance(value, Mapping) and step in value else _element(value, step)
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise BadManifest(f"{value!r} is no number of pods", path=(*path, *steps))
    return value


def _element(value: Any, step: str | int) -> Any:
    return value[step] if isinstance(step, int) and isinstance(value, (list, tuple)) and step < len(value) else None


def _role(body: Mapping[str, Any], place: _Place, where: Path) -> str | None:
    """The key or the name of the element that the template is one of; None where there is but one."""
    if EACH not in place.template:
        return place.role
    depth = place.template.index(EACH) + 1
    at: Any = body
    for step in where[:depth]:
        at = at[step]
    name = (at.get("name") or at.get("groupName")) if isinstance(at, Mapping) else None
    return str(where[depth - 1] if isinstance(where[depth - 1], str) else name or where[depth - 1])


_GANGS = ("LeaderWorkerSet", *_KUBEFLOW)
_STARTERS = ("launcher",)


def _together(body: Mapping[str, Any], kind: str, found: list[Template]) -> list[Template]:
    """The templates with the gang that their object makes of them."""
    spec = mapping(body.get("spec"), ("spec",))
    if kind == "LeaderWorkerSet":
        size = mapping(spec.get("leaderWorkerTemplate"), ("spec", "leaderWorkerTemplate")).get("size", 1)
        note = f"each replica is a gang of its own, of {size} pods, where the templates have the label gpupool.dev/gang"
        return [replace(one, notes=(note,)) for one in found]
    members = [one for one in found if (one.role or "").lower() not in _STARTERS]
    size = sum(one.replicas or 0 for one in members)
    least = spec.get("minAvailable") if isinstance(spec.get("minAvailable"), int) else None
    queue = str(spec["queue"]) if kind == "Job" and spec.get("queue") else None
    gang = GangHint(found[0].name, least or size, size) if size > 1 else None
    return [replace(one, hints=Hints(queue, gang if one in members else None)) for one in found]
