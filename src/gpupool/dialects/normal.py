"""The normal form as plain data and as the text of an annotation, and back, with the totals checked.

What a pod says of itself is an ask, never a grant; a claim that does not come to the totals in the pod's resources,
which nobody can change any more, was altered after admission and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from gpupool.base.errors import BadManifest, PodRefused
from gpupool.base.quantities import parse_quantity
from gpupool.dialects import native
from gpupool.dialects.contract import Ask, ContainerClaim, GangHint, Hints, PodClaim, Select, Where
from gpupool.dialects.pod import read_pod
from gpupool.dialects.registry import find
from gpupool.model.claim import Sharing, Within


def document(claim: PodClaim) -> dict[str, Any]:
    """Plain data: what is not said is left out. For JSON, YAML, and the annotation."""
    return {
        "containers": [_container(one) for one in claim.containers],
        **plain({"pod": asdict(claim.hints)}),
        **{key: list(getattr(claim, key)) for key in ("rules", "guesses", "notes", "unread") if getattr(claim, key)},
    }


def dump(claim: PodClaim) -> str:
    """The annotation's text: the claim without what was said about it."""
    bare = {"containers": [_container(one, bare=True) for one in claim.containers], "pod": plain(asdict(claim.hints))}
    return json.dumps(bare, sort_keys=True, separators=(",", ":"))


def read_admitted(pod: Mapping[str, Any]) -> PodClaim:
    """The claim of a pod that went through admission. Raises BadManifest, PodRefused."""
    view = read_pod(pod)
    word = view.annotation(native.CLAIM)
    if word is None:
        raise BadManifest(f"the pod has no annotation {native.CLAIM}: it did not go through admission")
    try:
        claim = _claim(json.loads(str(word.value)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadManifest(f"{native.CLAIM} cannot be read: {error}", path=word.path) from None
    for one in claim.containers:
        _check(one, view.named(one.container))
    asking = [one.name for one in view.containers if any(find(key, Where.RESOURCE) for key in one.resources)]
    if sorted(asking) != sorted(one.container for one in claim.containers):
        raise PodRefused(
            f"{native.CLAIM} is of other containers than those that ask: {', '.join(asking) or 'none'}",
            hint="make the pod anew: what it asks for is not changed afterwards",
            path=word.path,
        )
    return claim


def _check(one: ContainerClaim, view: Any) -> None:
    found = {} if view is None else {k: word for k, word in view.resources.items() if find(k, Where.RESOURCE)}
    if not set(found) <= {native.SLOT, native.MILLI, native.MEMORY} or native.SLOT not in found:
        raise PodRefused(
            f"container {one.container} asks for {', '.join(found) or 'nothing'} beside what was admitted",
            hint="make the pod anew: what it asks for is not changed afterwards",
            path=("metadata", "annotations", native.CLAIM),
        )
    held = {key: parse_quantity(word.value) for key, word in found.items()}
    ask = one.ask
    for key, wanted in ((native.MILLI, ask.held_milli), (native.MEMORY, ask.memory_bytes or 0)):
        if held.get(key, 0) != ask.count * wanted:
            raise PodRefused(
                f"container {one.container} was admitted with {key} {held.get(key, 0)},"
                f" and now claims {ask.count * wanted}",
                hint="make the pod anew: what it asks for is not changed afterwards",
                path=("metadata", "annotations", native.CLAIM),
            )


def _container(one: ContainerClaim, *, bare: bool = False) -> dict[str, Any]:
    found = {"container": one.container, "kind": one.kind, "dialects": one.dialects}
    found |= asdict(one.ask.bare if bare else one.ask) | ({} if bare else {"share": str(one.ask)})
    told: dict[str, Any] = plain(found)
    return told


def plain(value: Any) -> Any:
    """Mappings, lists, text and numbers alone; what is not said is left out of mappings."""
    if isinstance(value, dict):
        inner = {key: plain(one) for key, one in value.items()}
        return {key: one for key, one in inner.items() if one not in (None, [], {})}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, StrEnum) else value


def _claim(given: Mapping[str, Any]) -> PodClaim:
    hints = dict(given.get("pod") or {})
    gang, within = hints.pop("gang", None), hints.pop("within", None)
    said = Hints(
        **_text(hints, "queue", "priority"),
        gang=None if gang is None else GangHint(**_text(gang, "name"), **_numbers(gang, "minimum", "size")),
        within=None if within is None else Within(**_text(within, "required", "preferred")),
        preemptible=hints["preemptible"] is True if "preemptible" in hints else None,
    )
    return PodClaim(tuple(map(_read_container, given["containers"])), said)


def _read_container(given: Mapping[str, Any]) -> ContainerClaim:
    select = {key: tuple(map(_listed, value)) for key, value in (given.get("select") or {}).items()}
    ask = Ask(
        **_numbers(given, "count", "gpu_milli", "cap_milli", "memory_bytes", "memory_milli"),
        **_text(given, "profile", "urgency", "vendor"),
        sharing=Sharing(given["sharing"]),
        select=Select(**select),
    )
    named = _text(given, "container", "kind")
    return ContainerClaim(**named, ask=ask, dialects=tuple(map(str, given.get("dialects") or ())))


def _listed(value: Any) -> Any:
    """A name, or a label: its key and value."""
    return tuple(map(str, value)) if isinstance(value, list) else str(value)


def _text(given: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: str(given[key]) for key in keys if given.get(key) is not None}


def _numbers(given: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found = {key: given[key] for key in keys if given.get(key) is not None}
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 1 for number in found.values()):
        raise ValueError("numbers are whole and above 0")
    return found
