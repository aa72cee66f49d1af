"""A pod as a dialect looks at it: containers, words with the place they stand at, and nothing that could be missing.

Built from plain mappings, as YAML or the API server gives them; whatever is of the wrong kind is a BadManifest with
the path to it, never a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import BadManifest, BadQuantity, GpupoolError
from gpupool.base.quantities import parse_quantity

Path = tuple[str | int, ...]
APP, SIDECAR, INIT = "app", "sidecar", "init"


@dataclass(frozen=True)
class Word:
    """A key with its value, and where both stand."""

    key: str
    value: Any
    path: Path

    def __str__(self) -> str:
        shown = str(self.value)
        return f"{self.key}: {shown if len(shown) <= 60 else shown[:57] + '...'}"


@dataclass(frozen=True)
class Container:
    """`resources` are extended ones (a slash in the name); environment from elsewhere (`valueFrom`) is None."""

    name: str
    kind: str
    path: Path
    resources: Mapping[str, Word] = field(default_factory=dict)
    env: Mapping[str, Word] = field(default_factory=dict)
    privileged: bool = False
    only_requested: tuple[str, ...] = ()

    def resource(self, key: str) -> Word | None:
        """The word, unless it asks for nothing: to Kubernetes nought and absent are the same."""
        return self.resources[key] if self.asks(key) else None

    def asks(self, *keys: str) -> bool:
        """Whether any of these resources is there and not nought."""
        return any(not nought(self.resources[key].value) for key in keys if key in self.resources)


@dataclass(frozen=True)
class Pod:
    containers: tuple[Container, ...]
    annotations: Mapping[str, Word] = field(default_factory=dict)
    labels: Mapping[str, Word] = field(default_factory=dict)
    selector: Mapping[str, Word] = field(default_factory=dict)
    scheduler: str | None = None
    runtime_class: str | None = None
    node_name: str | None = None
    priority_class: str | None = None
    gang_name: str | None = None
    """`spec.schedulingGroup.podGroupName` of Kubernetes itself."""
    name: str | None = None

    def annotation(self, key: str) -> Word | None:
        return self.annotations.get(key)

    def label(self, key: str) -> Word | None:
        return self.labels.get(key)

    def named(self, name: str) -> Container | None:
        return next((one for one in self.containers if one.name == name), None)


def read_pod(pod: object) -> Pod:
    """The view of a pod, or of a pod template. Raises BadManifest."""
    body = mapping(pod, ())
    meta, spec = mapping(body.get("metadata"), ("metadata",)), mapping(body.get("spec"), ("spec",))
    containers = (
        *_containers(spec, "containers", APP),
        *_containers(spec, "initContainers", INIT),
    )
    seen: set[str] = set()
    for one in containers:
        if one.name in seen:
            raise BadManifest(f"two containers are called {one.name!r}", path=one.path)
        seen.add(one.name)
    group = mapping(spec.get("schedulingGroup"), ("spec", "schedulingGroup"))
    return Pod(
        containers,
        dict(_words(meta.get("annotations"), ("metadata", "annotations"))),
        dict(_words(meta.get("labels"), ("metadata", "labels"))),
        dict(_words(spec.get("nodeSelector"), ("spec", "nodeSelector"))),
        _text(spec, "schedulerName"),
        _text(spec, "runtimeClassName"),
        _text(spec, "nodeName"),
        _text(spec, "priorityClassName"),
        _text(group, "podGroupName"),
        _text(meta, "name"),
    )


def mapping(value: object, path: Path) -> Mapping[str, Any]:
    """The mapping at that place, empty where nothing is. Raises BadManifest."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadManifest(f"{dotted(path)} should be a mapping, and is {type(value).__name__}", path=path)
    return value


def sequence(value: object, path: Path) -> Sequence[Any]:
    """The list at that place, empty where nothing is. Raises BadManifest."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise BadManifest(f"{dotted(path)} should be a list, and is {type(value).__name__}", path=path)
    return value


def dotted(path: Path) -> str:
    """`spec.containers[0].name`; an empty path is the pod."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return text or "the pod"


def nought(value: object) -> bool:
    try:
        return parse_quantity(value) == 0
    except BadQuantity:
        return False


def placed(error: GpupoolError, path: Path) -> GpupoolError:
    """The error with the place, unless it has one."""
    error.details.setdefault("path", path)
    return error


def _containers(spec: Mapping[str, Any], key: str, kind: str) -> Iterator[Container]:
    for number, given in enumerate(sequence(spec.get(key), ("spec", key))):
        path: Path = ("spec", key, number)
        one = mapping(given, path)
        sidecar = kind == INIT and one.get("restartPolicy") == "Always"
        yield _container(one, SIDECAR if sidecar else kind, path)


def _container(one: Mapping[str, Any], kind: str, path: Path) -> Container:
    resources = mapping(one.get("resources"), (*path, "resources"))
    limits = dict(_extended(resources, "limits", path))
    requests = dict(_extended(resources, "requests", path))
    for key, word in requests.items():
        if key in limits and not _same(word.value, limits[key].value):
            raise BadManifest(
                f"{word}, but its limit is {limits[key].value}",
                hint="Kubernetes wants requests and limits of such a resource to be equal",
                path=word.path,
            )
    security = mapping(one.get("securityContext"), (*path, "securityContext"))
    return Container(
        str(one.get("name") or f"container-{path[-1]}"),
        kind,
        path,
        requests | limits,
        dict(_env(one.get("env"), (*path, "env"))),
        security.get("privileged") is True,
        tuple(key for key in requests if key not in limits),
    )


def _extended(resources: Mapping[str, Any], part: str, path: Path) -> Iterator[tuple[str, Word]]:
    place = (*path, "resources", part)
    for key, value in mapping(resources.get(part), place).items():
        if "/" in str(key):
            yield str(key), Word(str(key), value, (*place, str(key)))


def _env(given: object, path: Path) -> Iterator[tuple[str, Word]]:
    for number, one in enumerate(sequence(given, path)):
        entry = mapping(one, (*path, number))
        value = entry.get("value")
        yield str(entry.get("name")), Word(str(entry.get("name")), value, (*path, number, "value"))


def _words(given: object, path: Path) -> Iterator[tuple[str, Word]]:
    for key, value in mapping(given, path).items():
        yield str(key), Word(str(key), value, (*path, str(key)))


def _same(one: object, other: object) -> bool:
    try:
        return parse_quantity(one) == parse_quantity(other)
    except BadQuantity:
        return str(one) == str(other)


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    return None if value is None or value == "" else str(value)
