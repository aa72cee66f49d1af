"""Pods inside other objects: where their templates are, how many there are, and which of them start
together.

Knows the shape of the objects, no word of any dialect: so not which members of a gang ask for
cards. Sources: Kubernetes' API reference; kubeflow/training-operator and mpi-operator
(`*ReplicaSpecs`), ray-project/kuberay, kubernetes-sigs/lws and jobset, volcano-sh/apis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpupool.base.errors import BadManifest
from gpupool.dialects.contract import NO_HINTS, GangHint, PodHints
from gpupool.dialects.pod import Path, format_path, read_mapping, read_sequence

#: In a path: every key of a mapping, or every element of a list.
EACH = "*"
DAEMON = "daemon"
#: More pods of one template are a mistake in the manifest.
MOST = 100_000


@dataclass(frozen=True)
class PodTemplate:
    """One pod template: its place in the document, and so many pods of it (None: as many as there
    are nodes)."""

    path: Path
    kind: str
    name: str
    pod: Mapping[str, Any]
    namespace: str = ""
    role: str | None = None
    replicas: int | None = 1
    hints: PodHints = NO_HINTS
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _TemplatePlace:
    """Where templates are (`*` is each key or element), and where their number is, beside the
    template or above."""

    template: tuple[str, ...]
    replicas: tuple[str, ...] | None = None
    role: str | None = None


_RUNTIME = (
    _TemplatePlace(
        ("spec", "template", "spec", "replicatedJobs", EACH, "template", "spec", "template"),
        ("spec", "template", "spec", "replicatedJobs", EACH, "replicas"),
    ),
)
_ONE = (_TemplatePlace(("spec", "template"), ("spec", "replicas")),)
_PLACES: Mapping[str, tuple[_TemplatePlace, ...]] = {
    "Pod": (_TemplatePlace(()),),
    "PodTemplate": (_TemplatePlace(("template",)),),
    "Deployment": _ONE,
    "ReplicaSet": _ONE,
    "ReplicationController": _ONE,
    "StatefulSet": _ONE,
    # As many pods as nodes: a manifest does not know how many.
    "DaemonSet": (_TemplatePlace(("spec", "template"), None, DAEMON),),
    "Job": (_TemplatePlace(("spec", "template"), ("spec", "parallelism")),),
    "CronJob": (
        _TemplatePlace(
            ("spec", "jobTemplate", "spec", "template"),
            ("spec", "jobTemplate", "spec", "parallelism"),
        ),
    ),
    "LeaderWorkerSet": (
        _TemplatePlace(("spec", "leaderWorkerTemplate", "leaderTemplate"), None, "leader"),
        _TemplatePlace(("spec", "leaderWorkerTemplate", "workerTemplate"), None, "worker"),
    ),
    "RayCluster": (
        _TemplatePlace(("spec", "headGroupSpec", "template"), None, "head"),
        _TemplatePlace(
            ("spec", "workerGroupSpecs", EACH, "template"),
            ("spec", "workerGroupSpecs", EACH, "replicas"),
        ),
    ),
    "JobSet": (
        _TemplatePlace(
            ("spec", "replicatedJobs", EACH, "template", "spec", "template"),
            ("spec", "replicatedJobs", EACH, "replicas"),
        ),
    ),
    "TrainingRuntime": _RUNTIME,
    "ClusterTrainingRuntime": _RUNTIME,
    "VolcanoJob": (
        _TemplatePlace(("spec", "tasks", EACH, "template"), ("spec", "tasks", EACH, "replicas")),
    ),
}
#: Kinds of the training operator, with the key of their roles.
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


def list_templates(document: object, path: Path = ()) -> list[PodTemplate]:
    """Every pod template of a document, with where it is; none of an object that has no pods.
    Raises BadManifest."""
    body = read_mapping(document, path)
    kind = str(body.get("kind") or "")
    if not kind:
        raise BadManifest(
            f"{format_path(path) if path else 'the document'} has no kind",
            hint="a manifest has apiVersion and kind",
            path=path,
        )
    if kind == "List":
        items = read_sequence(body.get("items"), (*path, "items"))
        return [
            one for n, item in enumerate(items) for one in list_templates(item, (*path, "items", n))
        ]
    if kind == "AppWrapper":
        return list(_list_wrapped(body, path))
    if kind == "Job" and str(body.get("apiVersion", "")).startswith("batch.volcano.sh"):
        return _add_gang(body, kind, [*_read_templates(body, _PLACES["VolcanoJob"], kind, path)])
    found = list(_read_templates(body, _find_places(body, kind), kind, path))
    return _add_gang(body, kind, found) if kind in _GANGS else found


def _list_wrapped(body: Mapping[str, Any], path: Path) -> Iterator[PodTemplate]:
    """Templates of the objects inside an AppWrapper."""
    at: Path = (*path, "spec", "components")
    for number, given in enumerate(
        read_sequence(read_mapping(body.get("spec"), (*path, "spec")).get("components"), at)
    ):
        inner = read_mapping(given, (*at, number)).get("template")
        if inner is not None:
            yield from list_templates(inner, (*at, number, "template"))


def _find_places(body: Mapping[str, Any], kind: str) -> tuple[_TemplatePlace, ...]:
    if kind in _KUBEFLOW:
        roles = ("spec", _KUBEFLOW[kind], EACH)
        return (_TemplatePlace((*roles, "template"), (*roles, "replicas")),)
    if kind in _RAY:
        inner = ("spec", _RAY[kind])
        found = []
        for place in _PLACES["RayCluster"]:
            found.append(
                replace(
                    place,
                    template=(*inner, *place.template[1:]),
                    replicas=None if place.replicas is None else (*inner, *place.replicas[1:]),
                )
            )
        return tuple(found)
    known = _PLACES.get(kind)
    spec = body.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    inside = template.get("spec") if isinstance(template, Mapping) else None
    return known or (_ONE if isinstance(inside, Mapping) and "containers" in inside else ())


def _read_templates(
    body: Mapping[str, Any], places: Sequence[_TemplatePlace], kind: str, path: Path
) -> Iterator[PodTemplate]:
    meta = read_mapping(body.get("metadata"), (*path, "metadata"))
    name = str(meta.get("name") or meta.get("generateName") or "unnamed")
    for place in places:
        for where, pod in _walk_path(body, place.template, path):
            at = where[len(path) :]
            replicas = None if place.role == DAEMON else _read_replicas(body, place, at, path)
            space = str(meta.get("namespace") or "")
            yield PodTemplate(
                where,
                kind,
                name,
                read_mapping(pod, where),
                space,
                _read_role(body, place, at),
                replicas,
            )


def _walk_path(value: Any, steps: Sequence[str], path: Path) -> Iterator[tuple[Path, Any]]:
    if not steps:
        if value is not None:
            yield path, value
        return
    step = steps[0]
    rest = steps[1:]
    if step != EACH:
        yield from _walk_path(read_mapping(value, path).get(step), rest, (*path, step))
    elif isinstance(value, Mapping):
        for key in value:
            yield from _walk_path(value[key], rest, (*path, str(key)))
    else:
        for number, one in enumerate(read_sequence(value, path)):
            yield from _walk_path(one, rest, (*path, number))


def _read_replicas(body: Mapping[str, Any], place: _TemplatePlace, where: Path, path: Path) -> int:
    if place.replicas is None:
        return 1
    steps = [at if step == EACH else step for step, at in zip(place.replicas, where, strict=False)]
    value: Any = body
    for step in [*steps, *place.replicas[len(steps) :]]:
        value = (
            value[step]
            if isinstance(value, Mapping) and step in value
            else _get_element(value, step)
        )
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise BadManifest(f"{value!r} is no number of pods", path=(*path, *steps))
    return value


def _get_element(value: Any, step: str | int) -> Any:
    return (
        value[step]
        if isinstance(step, int) and isinstance(value, (list, tuple)) and step < len(value)
        else None
    )


def _read_role(body: Mapping[str, Any], place: _TemplatePlace, where: Path) -> str | None:
    """The key or the name of the element that the template is one of; None where there is but
    one."""
    if EACH not in place.template:
        return place.role
    depth = place.template.index(EACH) + 1
    at: Any = body
    for step in where[:depth]:
        at = at[step]
    # RayCluster calls the name of a group `groupName`.
    name = (at.get("name") or at.get("groupName")) if isinstance(at, Mapping) else None
    return str(where[depth - 1] if isinstance(where[depth - 1], str) else name or where[depth - 1])


#: Kinds whose members cannot work alone; of the others each pod starts when it can.
_GANGS = ("LeaderWorkerSet", *_KUBEFLOW)
#: An MPI launcher starts after the workers, so it is no member of their gang.
_STARTERS = ("launcher",)


def _add_gang(body: Mapping[str, Any], kind: str, found: list[PodTemplate]) -> list[PodTemplate]:
    """The templates with the gang that their object makes of them."""
    spec = read_mapping(body.get("spec"), ("spec",))
    if kind == "LeaderWorkerSet":
        size = read_mapping(spec.get("leaderWorkerTemplate"), ("spec", "leaderWorkerTemplate")).get(
            "size", 1
        )
        note = f"each replica is a gang of its own, of {size} pods, where the templates have the label gpupool.dev/gang"
        return [replace(one, notes=(note,)) for one in found]
    members = []
    for one in found:
        if (one.role or "").lower() not in _STARTERS:
            members.append(one)
    size = sum(one.replicas or 0 for one in members)
    least = spec.get("minAvailable") if isinstance(spec.get("minAvailable"), int) else None
    queue = str(spec["queue"]) if kind == "Job" and spec.get("queue") else None
    gang = GangHint(found[0].name, least or size, size) if size > 1 else None
    return [replace(one, hints=PodHints(queue, gang if one in members else None)) for one in found]
