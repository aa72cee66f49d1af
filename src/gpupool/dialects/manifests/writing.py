"""Writes the normal form into a pod: as a user types it, as admission stores it, and as a patch.

Typed words are per card and can be typed again; admitted ones are a slot and totals, so that a
ResourceQuota counts what is really held, with the normal form and the words as typed beside them in
annotations. Mappings in, new mappings out; nothing that was given is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupool.base.errors import BadManifest
from gpupool.base.quantities import format_bytes
from gpupool.dialects.contract import NVIDIA, ContainerAsk, ContainerClaim, PodClaim, WordPlace
from gpupool.dialects.kubernetes import native
from gpupool.dialects.manifests import normal, registry
from gpupool.dialects.manifests.pod_rules import KUBERNETES
from gpupool.model.claim import SharingKind, TopologyConstraint

Mapped = dict[str, Any]
Patch = list[dict[str, Any]]


def write_typed(pod: Mapping[str, Any], claim: PodClaim) -> Mapped:
    """The pod in our words. Understanding it again gives the same claim."""
    if not claim.containers:
        return _copy_mapping(pod)
    new = _strip_known_words(pod)
    for one in claim.containers:
        _write_resources(new, one.container, dict(_typed_words(one)))
    _add_annotations(new, _build_annotations(claim))
    _write_hints(new, claim)
    return new


def write_admitted(pod: Mapping[str, Any], claim: PodClaim) -> Mapped:
    """The pod as admission stores it, once and again; `normal.read_admitted` reads the claim back,
    checking totals."""
    if not claim.containers or native.CLAIM in (
        (pod.get("metadata") or {}).get("annotations") or {}
    ):
        return _copy_mapping(pod)
    new = _strip_known_words(pod)
    for one in claim.containers:
        _write_resources(new, one.container, {native.SLOT: "1", **compute_totals(one)})
    words = {
        native.CLAIM: normal.dump_claim(claim),
        native.TYPED: json.dumps(_as_typed(pod), sort_keys=True),
    }
    _add_annotations(new, words | _build_annotations(claim))
    _write_hints(new, claim)
    return new


def admission_patch(pod: Mapping[str, Any], claim: PodClaim) -> Patch:
    """RFC 6902 operations that make the pod the admitted one; none where it asks for no cards."""
    return list(_diff_values(pod, write_admitted(pod, claim), ""))


def compute_totals(one: ContainerClaim) -> dict[str, str]:
    """What the container holds over all its cards, exactly. Memory that is a part of a card has no
    bytes yet."""
    ask = one.ask
    held = {}
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
        or (ask.is_whole and ask.memory_bytes is None and ask.memory_milli is None)
    ):
        yield native.GPUS, str(ask.count)
    if ask.gpu_milli is not None and not (
        ask.is_whole and ask.memory_bytes is None and ask.memory_milli is None
    ):
        yield native.MILLI, str(ask.gpu_milli)
    if ask.memory_bytes is not None:
        yield native.MEMORY, format_bytes(ask.memory_bytes)
    if ask.memory_milli is not None:
        yield native.MEMORY_MILLI, str(ask.memory_milli)


def _build_annotations(claim: PodClaim) -> dict[str, str]:
    """Once for the pod where all containers say the same, else each with its container's name
    before it."""
    said = {one.container: dict(_list_annotations(one)) for one in claim.containers}
    found: dict[str, str] = {}
    for key in native.PER_CONTAINER:
        values = {name: words.get(key) for name, words in said.items()}
        if len(set(values.values())) == 1:
            for value in set(values.values()):
                if value is not None:
                    found[f"{native.DOMAIN}/{key}"] = value
        else:
            for name, value in values.items():
                if value is not None:
                    found[f"{name}.{native.DOMAIN}/{key}"] = value
    return found


def _list_annotations(one: ContainerClaim) -> Iterator[tuple[str, str]]:
    ask = one.ask
    select = one.ask.select
    plain: tuple[tuple[str, str | None], ...] = (
        ("sharing", _format_sharing(ask)),
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
    for key, value in plain:
        if value is not None:
            yield key, value
    for key, values in lists:
        if values:
            yield key, ",".join(values)


def _format_sharing(ask: ContainerAsk) -> str | None:
    if ask.sharing is None or ask.names_sharing is False:
        return None
    # Without the word a share would take the default of its node.
    is_default = ask.sharing is SharingKind.FIXED and not ask.can_borrow
    return None if is_default else str(ask.sharing)


def _write_hints(new: Mapped, claim: PodClaim) -> None:
    hints = claim.hints
    labels: dict[str, str] = {} if hints.queue is None else {native.QUEUE: hints.queue}
    notes: dict[str, str] = {}
    if hints.gang is not None:
        labels[native.GANG] = hints.gang.name
        numbers = ((native.GANG_MIN, hints.gang.minimum), (native.GANG_SIZE, hints.gang.size))
        notes |= {key: str(number) for key, number in numbers if number is not None}
    if hints.within is not None:
        notes[native.TOPOLOGY] = format_topology(hints.within)
    if hints.preemptible is not None:
        notes[native.PREEMPTIBLE] = str(hints.preemptible).lower()
    for key, value in (hints.needs.write() if hints.needs else {}).items():
        notes[f"{native.DOMAIN}/{key}"] = value
    if labels:
        _get_child(_get_child(new, "metadata"), "labels").update(labels)
    _add_annotations(new, notes)


def format_topology(within: TopologyConstraint) -> str:
    """`rack`, `rack,preferred`, `block;rack,preferred`."""
    words = [] if within.required is None else [within.required]
    return ";".join(words + ([] if within.preferred is None else [f"{within.preferred},preferred"]))


def _strip_known_words(pod: Mapping[str, Any]) -> Mapped:
    """Copy the pod without the words that a dialect knows; unknown words stay."""
    new = _copy_mapping(pod)
    meta = _get_child(new, "metadata")
    spec = _get_child(new, "spec")
    _remove_known(meta, "annotations", WordPlace.ANNOTATION)
    _remove_known(meta, "labels", WordPlace.LABEL)
    _remove_known(spec, "nodeSelector", WordPlace.SELECTOR)
    for one in _list_containers(new):
        resources = one.get("resources")
        if isinstance(resources, dict):
            _remove_known(resources, "limits", WordPlace.RESOURCE)
            _remove_known(resources, "requests", WordPlace.RESOURCE)
        if "env" in one:
            _remove_variables(one)
    if spec.get("schedulerName") in registry.SCHEDULERS:
        spec["schedulerName"] = KUBERNETES
    # `_get_child` made these mappings where the pod had none: the patch must not add them.
    for key in ("metadata", "spec"):
        if not new[key] and key not in pod:
            del new[key]
    return new


def _remove_variables(container: Mapped) -> None:
    entries = container["env"] or []
    left = [entry for entry in entries if not _is_removed(entry.get("name"), WordPlace.ENV)]
    if left:
        container["env"] = left
    else:
        del container["env"]


def _remove_known(parent: Mapped, key: str, where: WordPlace) -> None:
    if parent.get(key):
        parent[key] = {
            name: value for name, value in parent[key].items() if not _is_removed(name, where)
        }
        if not parent[key]:
            del parent[key]


def _is_removed(key: object, where: WordPlace) -> bool:
    name = registry.find_word(str(key), where)
    return name is not None and not name.stays


def _write_resources(new: Mapped, container: str, words: Mapping[str, str]) -> None:
    """Limits of a container; Kubernetes takes them as its requests too."""
    for number, one in enumerate(_list_containers(new)):
        if (one.get("name") or f"container-{number}") == container:
            resources = _get_child(one, "resources")
            limits = _get_child(resources, "limits")
            requests = resources.get("requests")
            limits.update(words)
            # Empty requests would be written as a change of the pod.
            if requests is not None and not requests:
                del resources["requests"]
            return
    raise BadManifest(f"there is no container {container}")


def _list_containers(new: Mapped) -> list[Mapped]:
    spec = new.get("spec") or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _add_annotations(new: Mapped, words: Mapping[str, str]) -> None:
    if words:
        _get_child(_get_child(new, "metadata"), "annotations").update(words)


def _get_child(parent: Mapped, key: str) -> Mapped:
    if parent.get(key) is None:
        parent[key] = {}
    child: Mapped = parent[key]
    return child


def _as_typed(pod: Mapping[str, Any]) -> Mapped:
    """The known words of a pod as they were typed: per container its resources and environment,
    then the pod's."""
    meta = pod.get("metadata") or {}
    found: Mapped = {
        "annotations": _pick_known(meta.get("annotations"), WordPlace.ANNOTATION),
        "labels": _pick_known(meta.get("labels"), WordPlace.LABEL),
        "containers": {},
    }
    for one in _list_containers(_copy_mapping(pod)):
        found["containers"][one.get("name")] = dict(_typed_of(one))
    return {key: value for key, value in found.items() if value}


def _pick_known(words: Mapping[str, Any] | None, where: WordPlace) -> Mapped:
    """Pick the words that a dialect knows and that are removed from the pod."""
    return {key: value for key, value in (words or {}).items() if _is_removed(key, where)}


def _typed_of(one: Mapped) -> Iterable[tuple[str, Any]]:
    resources = one.get("resources") or {}
    for part in ("requests", "limits"):
        for key, v in (resources.get(part) or {}).items():
            if _is_removed(key, WordPlace.RESOURCE):
                yield key, v
    for e in one.get("env") or ():
        if _is_removed(e.get("name"), WordPlace.ENV) and "value" in e:
            yield e["name"], e["value"]


def _copy_mapping(pod: Mapping[str, Any]) -> Mapped:
    """Plain mappings and lists, all the way down."""
    return {key: _copy_value(value) for key, value in pod.items()}


def _copy_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _copy_mapping(value)
    return [_copy_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _diff_values(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": f"{path}/{_escape_pointer(key)}"}
        for key, value in new.items():
            if key in old:
                yield from _diff_values(old[key], value, f"{path}/{_escape_pointer(key)}")
            else:
                yield {"op": "add", "path": f"{path}/{_escape_pointer(key)}", "value": value}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _diff_values(one, other, f"{path}/{number}")
    # A list of another length is replaced whole: its elements have no names to match them by.
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}


def _escape_pointer(key: object) -> str:
    # RFC 6901: `~` first, or the `~` of a new `~1` would be escaped again.
    return str(key).replace("~", "~0").replace("/", "~1")
