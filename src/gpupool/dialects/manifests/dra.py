"""Claims of Dynamic Resource Allocation, as far as they can be said in our words; all others are
refused by name.

Understood is a claim of whole cards, of a share with `capacity`, or of one MIG profile, that one
container alone uses and that stands in the same file. Selectors, sharing, constraints and claims
that containers share have no equal here before there is a driver. Source: Kubernetes
`resource.k8s.io/v1` and its betas; NVIDIA/k8s-dra-driver-gpu demo/specs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import DeviceClaimUnread
from gpupool.dialects.contract import WordPlace
from gpupool.dialects.kubernetes import native
from gpupool.dialects.manifests.registry import find_word, is_probably_card
from gpupool.dialects.pod import Path, read_mapping, read_sequence

#: Kinds of claims, with the key by which a pod names one.
KINDS = {"ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName"}
#: Device classes of NVIDIA's driver and of vgpu-manager's.
WHOLE_CARDS = "gpu.nvidia.com"
SLICES = "mig.nvidia.com"
SHARES = "vgpu-manager"
#: The one CEL expression that is understood: NVIDIA's examples choose a MIG profile by it.
_PROFILE = re.compile(
    r"device\.attributes\['gpu\.nvidia\.com'\]\.profile == ['\"]([0-9]+g\.[0-9]+gb)['\"]"
)
_READ = frozenset({"deviceClassName", "count", "allocationMode", "capacity", "selectors", "name"})
_HINT = "ask in the limits of the container: gpupool.dev/gpus, gpupool.dev/gpu-milli, gpupool.dev/memory"
Json = Mapping[str, Any]


@dataclass(frozen=True)
class ResourceClaims:
    """The claims and templates of one file, by kind, namespace and name."""

    specs: Mapping[tuple[str, str, str], Json] = field(default_factory=dict)
    #: How many pods or pod templates name each ResourceClaim: one that several use is one card for
    #: all of them.
    uses: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_documents(cls, documents: Iterable[Any]) -> ResourceClaims:
        documents = list(documents)
        found: dict[tuple[str, str, str], Json] = {}
        for one in documents:
            if isinstance(one, Mapping) and one.get("kind") == "ComputeDomain":
                found |= _read_channel(one)
            if isinstance(one, Mapping) and str(one.get("kind")) in KINDS:
                spec = read_mapping(one.get("spec"), ("spec",))
                inner = (
                    spec
                    if one["kind"] == "ResourceClaim"
                    else read_mapping(spec.get("spec"), ("spec", "spec"))
                )
                meta = read_mapping(one.get("metadata"), ("metadata",))
                found[one["kind"], str(meta.get("namespace") or ""), str(meta.get("name"))] = inner
        return cls(found, Counter(_list_claim_names(documents)))


def _list_claim_names(value: Any) -> Iterator[str]:
    """Names of ResourceClaims, as often as pods name them."""
    if isinstance(value, Mapping):
        if isinstance(value.get("resourceClaimName"), str):
            yield value["resourceClaimName"]
        for inner in value.values():
            yield from _list_claim_names(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _list_claim_names(inner)


def _read_channel(domain: Json) -> dict[tuple[str, str, str], Json]:
    """The template that NVIDIA's driver makes for a ComputeDomain: a channel between nodes, and no
    card."""
    meta = read_mapping(domain.get("metadata"), ("metadata",))
    channel = read_mapping(
        read_mapping(domain.get("spec"), ("spec",)).get("channel"), ("spec", "channel")
    )
    name = read_mapping(channel.get("resourceClaimTemplate"), ("spec", "channel")).get("name")
    return (
        {("ResourceClaimTemplate", str(meta.get("namespace") or ""), str(name)): {}} if name else {}
    )


@dataclass(frozen=True)
class ResolvedPod:
    """The pod with its claims in our words, and what is to be noted."""

    pod: Json
    rules: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def resolve_claims(
    pod: Json, namespace: str, claims: ResourceClaims, *, alone: bool = True
) -> ResolvedPod:
    """Raises DeviceClaimUnread, with the `path` in the pod. `alone`: there is one such pod, and not
    several."""
    spec = read_mapping(pod.get("spec"), ("spec",))
    entries = read_sequence(spec.get("resourceClaims"), ("spec", "resourceClaims"))
    words: dict[str, dict[str, str]] = {}
    profiles: dict[str, str] = {}
    rules: list[str] = []
    notes: list[str] = []
    read: set[str] = set()
    for number, given in enumerate(entries):
        path: Path = ("spec", "resourceClaims", number)
        entry = read_mapping(given, path)
        name = str(entry.get("name"))
        users = list(_list_users(spec, name))
        request = _find_request(entry, users, spec, namespace, claims, path)
        if request is None:
            notes.append(f"resource claim {name} asks for no card: it is left to its driver")
            continue
        limits, profile = _read_limits(name, request, path)
        _check_claim(
            len(users) == 1, name, f"{len(users)} containers use it, and here a share has one", path
        )
        _check_claim(
            users[0] not in words, name, f"container {users[0]} uses another claim as well", path
        )
        own = entry.get("resourceClaimName")
        # One ResourceClaim is one device: pods that name the same one would share a card unfenced.
        shared = own is not None and (not alone or claims.uses.get(str(own), 0) > 1)
        _check_claim(not shared, name, "several pods use it, and here a share has one", path)
        read.add(name)
        words[users[0]] = limits
        profiles |= {} if profile is None else {users[0]: profile}
        words_read = ", ".join(f"{key}: {value}" for key, value in limits.items())
        rules.append(f"dra: resource claim {name}: {words_read}")
    return ResolvedPod(
        _write_claims(pod, read, words, profiles) if read else pod, tuple(rules), tuple(notes)
    )


def _list_users(spec: Json, claim: str) -> Iterator[str]:
    """Names of the containers that use the claim."""
    for key in ("containers", "initContainers"):
        for number, given in enumerate(read_sequence(spec.get(key), ("spec", key))):
            one = read_mapping(given, ("spec", key, number))
            used = read_sequence(read_mapping(one.get("resources"), ()).get("claims"), ())
            if any(read_mapping(use, ()).get("name") == claim for use in used):
                yield str(one.get("name") or f"container-{number}")


def _asks_otherwise(spec: Json, container: str) -> bool:
    """Whether the container names cards in its resources: then its claim probably is of something
    beside them."""
    for key in ("containers", "initContainers"):
        for one in read_sequence(spec.get(key), ("spec", key)):
            if str(read_mapping(one, ()).get("name")) == container:
                limits = read_mapping(read_mapping(one.get("resources"), ()).get("limits"), ())
                return any(find_word(str(name), WordPlace.RESOURCE) for name in limits)
    return False


def _find_request(
    entry: Json, users: list[str], pod: Json, space: str, claims: ResourceClaims, path: Path
) -> Json | None:
    """The one request of the claim; None where it is for no card."""
    name = str(entry.get("name"))
    key, kind = next(((key, kind) for kind, key in KINDS.items() if entry.get(key)), ("", ""))
    spec = claims.specs.get((kind, space, str(entry.get(key)))) if key else None
    if spec is None:
        if all(_asks_otherwise(pod, user) for user in users):
            return None
        raise _make_error(
            name, "the claim is not in this file, so what it asks for is not known", path
        )
    devices = read_mapping(spec.get("devices"), path)
    requests = [_unwrap_request(one, path) for one in read_sequence(devices.get("requests"), path)]
    old = spec.get("resourceClassName")
    classes = [str(one.get("deviceClassName")) for one in requests] + ([str(old)] if old else [])
    if not any(one == SHARES or is_probably_card(one) for one in classes):
        return None
    if old:
        _check_claim(not spec.get("parametersRef"), name, "it has parameters of its driver", path)
        return {"deviceClassName": str(old)}
    _check_claim(len(requests) == 1, name, f"it has {len(requests)} requests", path)
    for more in ("config", "constraints"):
        _check_claim(not devices.get(more), name, f"`{more}` is its driver's to keep", path)
    return requests[0]


def _unwrap_request(given: object, path: Path) -> Json:
    """A request of `v1`, where it is in `exactly`, or of a beta."""
    one = read_mapping(given, path)
    return read_mapping(one.get("exactly"), path) or one


def _read_limits(name: str, request: Json, path: Path) -> tuple[dict[str, str], str | None]:
    """Limits of the container, and the profile of a partition."""
    kind = str(request.get("deviceClassName"))
    more = sorted(set(request) - _READ)
    _check_claim(not more, name, f"`{', '.join(more)}` has no equal here", path)
    mode = request.get("allocationMode", "ExactCount")
    _check_claim(
        mode == "ExactCount",
        name,
        "allocationMode: All is every card of a node, however many",
        path,
    )
    found = {native.GPUS: str(request.get("count", 1))}
    expressions = []
    for one in read_sequence(request.get("selectors"), path):
        expressions.append(_read_expression(one, path))
    if kind == SLICES:
        matches = []
        for text in expressions:
            if match := _PROFILE.fullmatch(text.strip()):
                matches.append(match)
        _check_claim(
            len(expressions) == len(matches) == 1, name, "it does not name just one profile", path
        )
        return found, matches[0].group(1)
    _check_claim(not expressions, name, "a CEL selector has no equal here", path)
    _check_claim(
        kind in (WHOLE_CARDS, SHARES), name, f"the device class {kind} is not known here", path
    )
    capacity = read_mapping(read_mapping(request.get("capacity"), path).get("requests"), path)
    unknown = sorted(set(capacity) - {"cores", "memory"})
    _check_claim(not unknown, name, f"a capacity of {', '.join(unknown)} has no equal here", path)
    if "cores" in capacity:
        found[native.MILLI] = _parse_cores(name, capacity["cores"], path)
    if "memory" in capacity:
        _check_claim("cores" in capacity, name, "memory without compute is no share here", path)
        found[native.MEMORY] = str(capacity["memory"])
    return found, None


def _parse_cores(name: str, cores: object, path: Path) -> str:
    text = str(cores)
    _check_claim(
        text.isdigit() and 0 < int(text) <= 100, name, f"cores: {text} is no percentage", path
    )
    return str(int(text) * 10)


def _read_expression(given: object, path: Path) -> str:
    return str(read_mapping(read_mapping(given, path).get("cel"), path).get("expression"))


def _check_claim(holds: bool, name: str, why: str, path: Path) -> None:
    if not holds:
        raise _make_error(name, why, path)


def _make_error(name: str, why: str, path: Path) -> DeviceClaimUnread:
    return DeviceClaimUnread(f"resource claim {name}: {why}", hint=_HINT, path=path)


def _write_claims(
    pod: Json, read: set[str], words: Mapping[str, dict[str, str]], profiles: Mapping[str, str]
) -> Json:
    """The pod without the claims that were read, and with what they mean."""
    spec = dict(pod["spec"])
    left = []
    for one in spec["resourceClaims"]:
        if str(one.get("name")) not in read:
            left.append(one)
    if left:
        spec["resourceClaims"] = left
    else:
        del spec["resourceClaims"]
    for key in ("containers", "initContainers"):
        if spec.get(key):
            containers = []
            for number, one in enumerate(spec[key]):
                containers.append(_write_container(one, number, read, words))
            spec[key] = containers
    meta = dict(pod.get("metadata") or {})
    notes = {f"{name}.{native.DOMAIN}/profile": profile for name, profile in profiles.items()}
    if notes:
        meta["annotations"] = {**(meta.get("annotations") or {}), **notes}
    return {**pod, **({"metadata": meta} if meta else {}), "spec": spec}


def _write_container(
    one: Json, number: int, read: set[str], words: Mapping[str, dict[str, str]]
) -> Json:
    name = str(one.get("name") or f"container-{number}")
    resources = dict(one.get("resources") or {})
    claims = []
    for use in resources.pop("claims", None) or ():
        if str(use.get("name")) not in read:
            claims.append(use)
    if claims:
        resources["claims"] = claims
    if name in words:
        resources["limits"] = {**(resources.get("limits") or {}), **words[name]}
    return {**one, **({"resources": resources} if resources else {})}
