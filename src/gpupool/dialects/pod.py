"""A pod as a dialect looks at it: containers, words with the place they stand at, and nothing that
could be missing.

Built from plain mappings, as YAML or the API server gives them; whatever is of the wrong kind is a
BadManifest with the path to it, never a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import BadManifest, BadQuantity, GpupoolError
from gpupool.base.quantities import parse_quantity

Path = tuple[str | int, ...]
APP = "app"
SIDECAR = "sidecar"
INIT = "init"


@dataclass(frozen=True)
class PlacedWord:
    """A key with its value, and where both stand."""

    key: str
    value: Any
    path: Path

    def __str__(self) -> str:
        shown = str(self.value)
        return f"{self.key}: {shown if len(shown) <= 60 else shown[:57] + '...'}"


@dataclass(frozen=True)
class PodContainer:
    """`resources` are extended ones (a slash in the name); environment from elsewhere (`valueFrom`)
    is None."""

    name: str
    kind: str
    path: Path
    resources: Mapping[str, PlacedWord] = field(default_factory=dict)
    env: Mapping[str, PlacedWord] = field(default_factory=dict)
    privileged: bool = False
    only_requested: tuple[str, ...] = ()

    def find_resource(self, key: str) -> PlacedWord | None:
        """The word, unless it asks for nothing: to Kubernetes nought and absent are the same."""
        return self.resources[key] if self.asks_for(key) else None

    def asks_for(self, *keys: str) -> bool:
        """Whether any of these resources is there and not nought."""
        return any(not is_zero(self.resources[key].value) for key in keys if key in self.resources)


@dataclass(frozen=True)
class PodView:
    containers: tuple[PodContainer, ...]
    annotations: Mapping[str, PlacedWord] = field(default_factory=dict)
    labels: Mapping[str, PlacedWord] = field(default_factory=dict)
    selector: Mapping[str, PlacedWord] = field(default_factory=dict)
    scheduler: str | None = None
    runtime_class: str | None = None
    node_name: str | None = None
    priority_class: str | None = None
    #: `spec.schedulingGroup.podGroupName` of Kubernetes itself.
    gang_name: str | None = None
    name: str | None = None

    def find_annotation(self, key: str) -> PlacedWord | None:
        return self.annotations.get(key)

    def find_label(self, key: str) -> PlacedWord | None:
        return self.labels.get(key)

    def find_container(self, name: str) -> PodContainer | None:
        return next((one for one in self.containers if one.name == name), None)


def read_pod(pod: object) -> PodView:
    """The view of a pod, or of a pod template. Raises BadManifest."""
    body = read_mapping(pod, ())
    meta = read_mapping(body.get("metadata"), ("metadata",))
    spec = read_mapping(body.get("spec"), ("spec",))
    containers = (
        *_read_containers(spec, "containers", APP),
        *_read_containers(spec, "initContainers", INIT),
    )
    seen: set[str] = set()
    for one in containers:
        if one.name in seen:
            raise BadManifest(f"two containers are called {one.name!r}", path=one.path)
        seen.add(one.name)
    group = read_mapping(spec.get("schedulingGroup"), ("spec", "schedulingGroup"))
    return PodView(
        containers,
        dict(_read_words(meta.get("annotations"), ("metadata", "annotations"))),
        dict(_read_words(meta.get("labels"), ("metadata", "labels"))),
        dict(_read_words(spec.get("nodeSelector"), ("spec", "nodeSelector"))),
        _read_text(spec, "schedulerName"),
        _read_text(spec, "runtimeClassName"),
        _read_text(spec, "nodeName"),
        _read_text(spec, "priorityClassName"),
        _read_text(group, "podGroupName"),
        _read_text(meta, "name"),
    )


def read_mapping(value: object, path: Path) -> Mapping[str, Any]:
    """The mapping at that place, empty where nothing is. Raises BadManifest."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadManifest(
            f"{format_path(path)} should be a mapping, and is {type(value).__name__}", path=path
        )
    return value


def read_sequence(value: object, path: Path) -> Sequence[Any]:
    """The list at that place, empty where nothing is. Raises BadManifest."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise BadManifest(
            f"{format_path(path)} should be a list, and is {type(value).__name__}", path=path
        )
    return value


def format_path(path: Path) -> str:
    """`spec.containers[0].name`; an empty path is the pod."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(
        "."
    )
    return text or "the pod"


def is_zero(value: object) -> bool:
    try:
        return parse_quantity(value) == 0
    except BadQuantity:
        return False


def add_path(error: GpupoolError, path: Path) -> GpupoolError:
    """The error with the place, unless it has one."""
    error.details.setdefault("path", path)
    return error


def _read_containers(spec: Mapping[str, Any], key: str, kind: str) -> Iterator[PodContainer]:
    for number, given in enumerate(read_sequence(spec.get(key), ("spec", key))):
        path: Path = ("spec", key, number)
        one = read_mapping(given, path)
        # An init container that restarts always is a sidecar: it runs beside the others (Kubernetes
        # 1.29), so its cards are held with theirs and not before.
        sidecar = kind == INIT and one.get("restartPolicy") == "Always"
        yield _read_container(one, SIDECAR if sidecar else kind, path)


def _read_container(one: Mapping[str, Any], kind: str, path: Path) -> PodContainer:
    resources = read_mapping(one.get("resources"), (*path, "resources"))
    limits = dict(_read_extended(resources, "limits", path))
    requests = dict(_read_extended(resources, "requests", path))
    for key, word in requests.items():
        # Kubernetes rejects extended resources whose request and limit differ; found here, the
        # error names the line in the manifest.
        if key in limits and not _is_same_amount(word.value, limits[key].value):
            raise BadManifest(
                f"{word}, but its limit is {limits[key].value}",
                hint="Kubernetes wants requests and limits of such a resource to be equal",
                path=word.path,
            )
    security = read_mapping(one.get("securityContext"), (*path, "securityContext"))
    return PodContainer(
        str(one.get("name") or f"container-{path[-1]}"),
        kind,
        path,
        requests | limits,
        dict(_read_variables(one.get("env"), (*path, "env"))),
        security.get("privileged") is True,
        tuple(key for key in requests if key not in limits),
    )


def _read_extended(
    resources: Mapping[str, Any], part: str, path: Path
) -> Iterator[tuple[str, PlacedWord]]:
    place = (*path, "resources", part)
    for key, value in read_mapping(resources.get(part), place).items():
        # Extended resources have a domain; `cpu`, `memory` and the like are the kubelet's.
        if "/" in str(key):
            yield str(key), PlacedWord(str(key), value, (*place, str(key)))


def _read_variables(given: object, path: Path) -> Iterator[tuple[str, PlacedWord]]:
    for number, one in enumerate(read_sequence(given, path)):
        entry = read_mapping(one, (*path, number))
        value = entry.get("value")
        yield (
            str(entry.get("name")),
            PlacedWord(str(entry.get("name")), value, (*path, number, "value")),
        )


def _read_words(given: object, path: Path) -> Iterator[tuple[str, PlacedWord]]:
    for key, value in read_mapping(given, path).items():
        yield str(key), PlacedWord(str(key), value, (*path, str(key)))


def _is_same_amount(one: object, other: object) -> bool:
    try:
        return parse_quantity(one) == parse_quantity(other)
    except BadQuantity:
        return str(one) == str(other)


def _read_text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    return None if value is None or value == "" else str(value)
