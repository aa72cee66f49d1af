"""The normal form back in a pod: in our words as one types them, or as admission writes them, and as a patch.

Typed words are per card and can be typed again; admitted ones are a slot and totals, so that a ResourceQuota counts
what is really held, with the normal form and the words as typed beside them in annotations. Mappings in, new mappings
out; nothing that was given is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupool.base.errors import BadManifest
from gpupool.base.quantities import format_bytes
from gpupool.dialects import native, normal, registry
from gpupool.dialects.contract import NVIDIA, ContainerClaim, PodClaim, Where
from gpupool.dialects.pod_rules import KUBERNETES
from gpupool.model.claim import Sharing, Within

Mapped = dict[str, Any]
Patch = list[dict[str, Any]]


def typed(pod: Mapping[str, Any], claim: PodClaim) -> Mapped:
    """The pod in our words. Understanding it again gives the same claim."""
    if not claim.containers:
        return _copy(pod)
    new = _stripped(pod)
    for one in claim.containers:
        _resources(new, one.container, dict(_typed_words(one)))
    _annotate(new, _annotations(claim))
    _hints(new, claim)
    return new


def admitted(pod: Mapping[str, Any], claim: PodClaim) -> Mapped:
    """The pod as admission stores it, once and again; `normal.read_admitted` reads the claim back, checking totals."""
    if not claim.containers or native.CLAIM in ((pod.get("metadata") or {}).get("annotations") or {}):
        return _copy(pod)
    new = _stripped(pod)
    for one in claim.containers:
        _resources(new, one.container, {native.SLOT: "1", **totals(one)})
    words = {native.CLAIM: normal.dump(claim), native.TYPED: json.dumps(_as_typed(pod), sort_keys=True)}
    _annotate(new, words | _annotations(claim))
    _hints(new, claim)
    return new


def admission_patch(pod: Mapping[str, Any], claim: PodClaim) -> Patch:
    """RFC 6902 operations that make the pod the admitted one; none where it asks for no cards."""
    return list(_difference(pod, admitted(pod, claim), ""))


def totals(one: ContainerClaim) -> dict[str, str]:
    """What the container holds over all its cards, exactly. Memory that is a part of a card has no bytes yet."""
    ask, held = one.ask, {}
    if ask.held_milli:
        held[native.MILLI] = str(ask.count * ask.held_milli)
    if ask.memory_bytes is not None:
        held[native.MEMORY] = format_bytes(ask.count * ask.memory_bytes)
    return held


def _typed_words(one: ContainerClaim) -> Iterator[tuple[str, str]]:
    ask = one.ask
    if (
        ask.count > 1
        or ask.profile is not None
        or (ask.whole and ask.memory_bytes is None and ask.memory_milli is None)
    ):
        yield native.GPUS, str(ask.count)
    if ask.gpu_milli is not None and not (ask.whole and ask.memory_bytes is None and ask.memory_milli is None):
        yield native.MILLI, str(ask.gpu_milli)
    if ask.memory_bytes is not None:
        yield native.MEMORY, format_bytes(ask.memory_bytes)
    if ask.memory_milli is not None:
        yield native.MEMORY_MILLI, str(ask.memory_milli)


def _annotations(claim: PodClaim) -> dict[str, str]:
    """Once for the pod where all containers say the same, else each with its container's name before it."""
    said = {one.container: dict(_said(one)) for one in claim.containers}
    found: dict[str, str] = {}
    for key in native.PER_CONTAINER:
        values = {name: words.get(key) for name, words in said.items()}
        if len(set(values.values())) == 1:
            found |= {f"{native.DOMAIN}/{key}": value for value in set(values.values()) if value is not None}
        else:
            found |= {f"{name}.{native.DOMAIN}/{key}": value for name, value in values.items() if value is not None}
    return found


def _said(one: ContainerClaim) -> Iterator[tuple[str, str]]:
    ask, select = one.ask, one.ask.select
    plain: tuple[tuple[str, str | None], ...] = (
        ("sharing", None if ask.sharing in (None, Sharing.FIXED) else str(ask.sharing)),
        ("profile", ask.profile),
        ("compute-cap", None if ask.cap_milli is None else str(ask.cap_milli)),
        ("urgency", ask.urgency),
        ("vendor", None if ask.vendor == NVIDIA else ask.vendor),
    )
    lists = (
        ("model", select.models),
        ("not-model", select.not_models),
        ("cards", select.uuids),
        ("not-cards", select.not_uuids),
    )
    yield from ((key, value) for key, value in plain if value is not None)
    yield from ((key, ",".join(values)) for key, values in lists if values)


def _hints(new: Mapped, claim: PodClaim) -> None:
    hints = claim.hints
    labels: dict[str, str] = {} if hints.queue is None else {native.QUEUE: hints.queue}
    notes: dict[str, str] = {}
    if hints.gang is not None:
        labels[native.GANG] = hints.gang.name
        numbers = ((native.GANG_MIN, hints.gang.minimum), (native.GANG_SIZE, hints.gang.size))
        notes |= {key: str(number) for key, number in numbers if number is not None}
    if hints.within is not None:
        notes[native.TOPOLOGY] = within_words(hints.within)
    if hints.preemptible is not None:
        notes[native.PREEMPTIBLE] = str(hints.preemptible).lower()
    if labels:
        _child(_child(new, "metadata"), "labels").update(labels)
    _annotate(new, notes)


def within_words(within: Within) -> str:
    """`rack`, `rack,preferred`, `block;rack,preferred`."""
    words = [] if within.required is None else [within.required]
    return ";".join(words + ([] if within.preferred is None else [f"{within.preferred},preferred"]))


def _stripped(pod: Mapping[str, Any]) -> Mapped:
    """A copy without the words that have been said in ours; what is known to nobody stays."""
    new = _copy(pod)
    meta, spec = _child(new, "metadata"), _child(new, "spec")
    _without(meta, "annotations", Where.ANNOTATION)
    _without(meta, "labels", Where.LABEL)
    _without(spec, "nodeSelector", Where.SELECTOR)
    for one in _containers(new):
        resources = one.get("resources")
        if isinstance(resources, dict):
            _without(resources, "limits", Where.RESOURCE)
            _without(resources, "requests", Where.RESOURCE)
        if "env" in one:
            one["env"] = [entry for entry in one["env"] or [] if not _goes(entry.get("name"), Where.ENV)]
            if not one["env"]:
                del one["env"]
    if spec.get("schedulerName") in registry.SCHEDULERS:
        spec["schedulerName"] = KUBERNETES
    for key in ("metadata", "spec"):
        if not new[key] and key not in pod:
            del new[key]
    return new


def _without(parent: Mapped, key: str, where: Where) -> None:
    if parent.get(key):
        parent[key] = {name: value for name, value in parent[key].items() if not _goes(name, where)}
        if not parent[key]:
            del parent[key]


def _goes(key: object, where: Where) -> bool:
    name = registry.find(str(key), where)
    return name is not None and not name.stays


def _resources(new: Mapped, container: str, words: Mapping[str, str]) -> None:
    """Limits of a container; Kubernetes takes them as its requests too."""
    for number, one in enumerate(_containers(new)):
        if (one.get("name") or f"container-{number}") == container:
            resources = _child(one, "resources")
            limits, requests = _child(resources, "limits"), resources.get("requests")
            limits.update(words)
            if requests is not None and not requests:
                del resources["requests"]
            return
    raise BadManifest(f"there is no container {container}")


def _containers(new: Mapped) -> list[Mapped]:
    spec = new.get("spec") or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _annotate(new: Mapped, words: Mapping[str, str]) -> None:
    if words:
        _child(_child(new, "metadata"), "annotations").update(words)


def _child(parent: Mapped, key: str) -> Mapped:
    if parent.get(key) is None:
        parent[key] = {}
    child: Mapped = parent[key]
    return child


def _as_typed(pod: Mapping[str, Any]) -> Mapped:
    """The known words of a pod as they were typed: per container its resources and environment, then the pod's."""
    meta = pod.get("metadata") or {}
    found: Mapped = {
        part: {key: value for key, value in (meta.get(part) or {}).items() if _goes(key, where)}
        for part, where in (("annotations", Where.ANNOTATION), ("labels", Where.LABEL))
    }
    found["containers"] = {one.get("name"): dict(_typed_of(one)) for one in _containers(_copy(pod))}
    return {key: value for key, value in found.items() if value}


def _typed_of(one: Mapped) -> Iterable[tuple[str, Any]]:
    resources = one.get("resources") or {}
    for part in ("requests", "limits"):
        yield from ((key, v) for key, v in (resources.get(part) or {}).items() if _goes(key, Where.RESOURCE))
    yield from (
        (e["name"], e["value"]) for e in one.get("env") or () if _goes(e.get("name"), Where.ENV) and "value" in e
    )


def _copy(pod: Mapping[str, Any]) -> Mapped:
    """Plain mappings and lists, all the way down."""
    return {key: _copied(value) for key, value in pod.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _copy(value)
    return [_copied(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _difference(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in new.items():
            if key in old:
                yield from _difference(old[key], value, f"{path}/{_escaped(key)}")
            else:
                yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _difference(one, other, f"{path}/{number}")
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
