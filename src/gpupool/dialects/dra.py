"""Claims of Dynamic Resource Allocation, as far as they can be said in our words; all others are refused by name.

Understood is a claim of whole cards, of a share with `capacity`, or of one MIG profile, that one container alone uses
and that stands in the same file. Selectors, sharing, constraints and claims that containers share have no equal here
before there is a driver. Source: Kubernetes `resource.k8s.io/v1` and its betas; NVIDIA/k8s-dra-driver-gpu demo/specs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import DeviceClaimUnread
from gpupool.dialects import native
from gpupool.dialects.contract import Where
from gpupool.dialects.pod import Path, mapping, sequence
from gpupool.dialects.registry import find, seems_a_card

KINDS = {"ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName"}
WHOLE_CARDS, SLICES, SHARES = "gpu.nvidia.com", "mig.nvidia.com", "vgpu-manager"
_PROFILE = re.compile(r"device\.attributes\['gpu\.nvidia\.com'\]\.profile == ['\"]([0-9]+g\.[0-9]+gb)['\"]")
_READ = frozenset({"deviceClassName", "count", "allocationMode", "capacity", "selectors", "name"})
_HINT = "ask in the limits of the container: gpupool.dev/gpus, gpupool.dev/gpu-milli, gpupool.dev/memory"
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Claims:
    """The claims and templates of one file, by kind, namespace and name."""

    specs: Mapping[tuple[str, str, str], Json] = field(default_factory=dict)
    uses: Mapping[str, int] = field(default_factory=dict)
    """How many pods or pod templates name each ResourceClaim: one that several use is one card for all of them."""

    @classmethod
    def of(cls, documents: Iterable[Any]) -> Claims:
        documents = list(documents)
        found: dict[tuple[str, str, str], Json] = {}
        for one in documents:
            if isinstance(one, Mapping) and one.get("kind") == "ComputeDomain":
                found |= _channel(one)
            if isinstance(one, Mapping) and str(one.get("kind")) in KINDS:
                spec = mapping(one.get("spec"), ("spec",))
                inner = spec if one["kind"] == "ResourceClaim" else mapping(spec.get("spec"), ("spec", "spec"))
                meta = mapping(one.get("metadata"), ("metadata",))
                found[one["kind"], str(meta.get("namespace") or ""), str(meta.get("name"))] = inner
        return cls(found, Counter(_named(documents)))


def _named(value: Any) -> Iterator[str]:
    """Names of ResourceClaims, as often as pods name them."""
    if isinstance(value, Mapping):
        if isinstance(value.get("resourceClaimName"), str):
            yield value["resourceClaimName"]
        for inner in value.values():
            yield from _named(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _named(inner)


def _channel(domain: Json) -> dict[tuple[str, str, str], Json]:
    """The template that NVIDIA's driver makes for a ComputeDomain: a channel between nodes, and no card."""
    meta = mapping(domain.get("metadata"), ("metadata",))
    channel = mapping(mapping(domain.get("spec"), ("spec",)).get("channel"), ("spec", "channel"))
    name = mapping(channel.get("resourceClaimTemplate"), ("spec", "channel")).get("name")
    return {("ResourceClaimTemplate", str(meta.get("namespace") or ""), str(name)): {}} if name else {}


@dataclass(frozen=True)
class Resolved:
    """The pod with its claims in our words, and what is to be noted."""

    pod: Json
    rules: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def resolved(pod: Json, namespace: str, claims: Claims, *, alone: bool = True) -> Resolved:
    """Raises DeviceClaimUnread, with the `path` in the pod. `alone`: there is one such pod, and not several."""
    spec = mapping(pod.get("spec"), ("spec",))
    entries = sequence(spec.get("resourceClaims"), ("spec", "resourceClaims"))
    words: dict[str, dict[str, str]] = {}
    profiles: dict[str, str] = {}
    rules: list[str] = []
    notes: list[str] = []
    read: set[str] = set()
    for number, given in enumerate(entries):
        path: Path = ("spec", "resourceClaims", number)
        entry = mapping(given, path)
        name = str(entry.get("name"))
        users = list(_users(spec, name))
        request = _request(entry, users, spec, namespace, claims, path)
        if request is None:
            notes.append(f"resource claim {name} asks for no card: it is left to its driver")
            continue
        limits, profile = _words(name, request, path)
        _refused_unless(len(users) == 1, name, f"{len(users)} containers use it, and here a share has one", path)
        _refused_unless(users[0] not in words, name, f"container {users[0]} uses another claim as well", path)
        own = entry.get("resourceClaimName")
        shared = own is not None and (not alone or claims.uses.get(str(own), 0) > 1)
        _refused_unless(not shared, name, "several pods use it, and here a share has one", path)
        read.add(name)
        words[users[0]] = limits
        profiles |= {} if profile is None else {users[0]: profile}
        rules.append(f"dra: resource claim {name}: {', '.join(f'{key}: {value}' for key, value in limits.items())}")
    return Resolved(_written(pod, read, words, profiles) if read else pod, tuple(rules), tuple(notes))


def _users(spec: Json, claim: str) -> Iterator[str]:
    """Names of the containers that use the claim."""
    for key in ("containers", "initContainers"):
        for number, given in enumerate(sequence(spec.get(key), ("spec", key))):
            one = mapping(given, ("spec", key, number))
            used = sequence(mapping(one.get("resources"), ()).get("claims"), ())
            if any(mapping(use, ()).get("name") == claim for use in used):
                yield str(one.get("name") or f"container-{number}")


def _asks_otherwise(spec: Json, container: str) -> bool:
    """Whether the container names cards in its resources: then its claim probably is of something beside them."""
    for key in ("containers", "initContainers"):
        for one in sequence(spec.get(key), ("spec", key)):
            if str(mapping(one, ()).get("name")) == container:
                limits = mapping(mapping(one.get("resources"), ()).get("limits"), ())
                return any(find(str(name), Where.RESOURCE) for name in limits)
    return False


def _request(entry: Json, users: list[str], pod: Json, space: str, claims: Claims, path: Path) -> Json | None:
    """The one request of the claim; None where it is for no card."""
    name = str(entry.get("name"))
    key, kind = next(((key, kind) for kind, key in KINDS.items() if entry.get(key)), ("", ""))
    spec = claims.specs.get((kind, space, str(entry.get(key)))) if key else None
    if spec is None:
        if all(_asks_otherwise(pod, user) for user in users):
            return None
        raise _refused(name, "the claim is not in this file, so what it asks for is not known", path)
    devices = mapping(spec.get("devices"), path)
    requests = [_flat(one, path) for one in sequence(devices.get("requests"), path)]
    old = spec.get("resourceClassName")
    classes = [str(one.get("deviceClassName")) for one in requests] + ([str(old)] if old else [])
    if not any(one == SHARES or seems_a_card(one) for one in classes):
        return None
    if old:
        _refused_unless(not spec.get("parametersRef"), name, "it has parameters of its driver", path)
        return {"deviceClassName": str(old)}
    _refused_unless(len(requests) == 1, name, f"it has {len(requests)} requests", path)
    for more in ("config", "constraints"):
        _refused_unless(not devices.get(more), name, f"`{more}` is its driver's to keep", path)
    return requests[0]


def _flat(given: object, path: Path) -> Json:
    """A request of `v1`, where it is in `exactly`, or of a beta."""
    one = mapping(given, path)
    return mapping(one.get("exactly"), path) or one


def _words(name: str, request: Json, path: Path) -> tuple[dict[str, str], str | None]:
    """Limits of the container, and the profile of a partition."""
    kind = str(request.get("deviceClassName"))
    more = sorted(set(request) - _READ)
    _refused_unless(not more, name, f"`{', '.join(more)}` has no equal here", path)
    mode = request.get("allocationMode", "ExactCount")
    _refused_unless(mode == "ExactCount", name, "allocationMode: All is every card of a node, however many", path)
    found = {native.GPUS: str(request.get("count", 1))}
    expressions = [_expression(one, path) for one in sequence(request.get("selectors"), path)]
    if kind == SLICES:
        matches = [match for text in expressions if (match := _PROFILE.fullmatch(text.strip()))]
        _refused_unless(len(expressions) == len(matches) == 1, name, "it does not name just one profile", path)
        return found, matches[0].group(1)
    _refused_unless(not expressions, name, "a CEL selector has no equal here", path)
    _refused_unless(kind in (WHOLE_CARDS, SHARES), name, f"the device class {kind} is not known here", path)
    capacity = mapping(mapping(request.get("capacity"), path).get("requests"), path)
    unknown = sorted(set(capacity) - {"cores", "memory"})
    _refused_unless(not unknown, name, f"a capacity of {', '.join(unknown)} has no equal here", path)
    if "cores" in capacity:
        found[native.MILLI] = _milli(name, capacity["cores"], path)
    if "memory" in capacity:
        _refused_unless("cores" in capacity, name, "memory without compute is no share here", path)
        found[native.MEMORY] = str(capacity["memory"])
    return found, None


def _milli(name: str, cores: object, path: Path) -> str:
    text = str(cores)
    _refused_unless(text.isdigit() and 0 < int(text) <= 100, name, f"cores: {text} is no percentage", path)
    return str(int(text) * 10)


def _expression(given: object, path: Path) -> str:
    return str(mapping(mapping(given, path).get("cel"), path).get("expression"))


def _refused_unless(holds: bool, name: str, why: str, path: Path) -> None:
    if not holds:
        raise _refused(name, why, path)


def _refused(name: str, why: str, path: Path) -> DeviceClaimUnread:
    return DeviceClaimUnread(f"resource claim {name}: {why}", hint=_HINT, path=path)


def _written(pod: Json, read: set[str], words: Mapping[str, dict[str, str]], profiles: Mapping[str, str]) -> Json:
    """The pod without the claims that were read, and with what they mean."""
    spec = dict(pod["spec"])
    left = [one for one in spec["resourceClaims"] if str(one.get("name")) not in read]
    spec = {key: value for key, value in spec.items() if key != "resourceClaims" or left}
    if left:
        spec["resourceClaims"] = left
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec[key] = [_container(one, number, read, words) for number, one in enumerate(spec[key])]
    meta = dict(pod.get("metadata") or {})
    notes = {f"{name}.{native.DOMAIN}/profile": profile for name, profile in profiles.items()}
    if notes:
        meta["annotations"] = {**(meta.get("annotations") or {}), **notes}
    return {**pod, **({"metadata": meta} if meta else {}), "spec": spec}


def _container(one: Json, number: int, read: set[str], words: Mapping[str, dict[str, str]]) -> Json:
    name = str(one.get("name") or f"container-{number}")
    resources = dict(one.get("resources") or {})
    claims = [use for use in resources.pop("claims", None) or () if str(use.get("name")) not in read]
    if claims:
        resources["claims"] = claims
    if name in words:
        resources["limits"] = {**(resources.get("limits") or {}), **words[name]}
    return {**one, **({"resources": resources} if resources else {})}
