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
from gpupool.dialects.contract import Ask, ContainerClaim, GangHint, Hints, PodClaim, Select
from gpupool.dialects.pod import read_pod
from gpupool.model.claim import Sharing, Within


def document(claim: PodClaim) -> dict[str, Any]:
    """Plain data: what is not said is left out. For JSON, YAML, and the annotation."""
    return {
        "containers": [_container(one) for one in claim.containers],
        **plain({"pod": asdict(claim.hints)}),
        **{key: list(getattr(claim, key)) for key in ("rules", "guesses", "notes") if getattr(claim, key)},
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
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadManifest(f"{native.CLAIM} cannot be read: {error}", path=word.path) from None
    for one in claim.containers:
        _check(one, view.named(one.container))
    asking = {one.name for one in view.containers if one.asks(native.SLOT)}
    if asking != {one.container for one in claim.containers}:
        raise PodRefused(f"{native.CLAIM} names other containers than those with a slot", path=word.path)
    return claim


def _check(one: ContainerClaim, view: Any) -> None:
    held = {} if view is None else {key: parse_quantity(word.value) for key, word in view.resources.items()}
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
    gang, within = hints.get("gang"), hints.get("within")
    if gang is not None:
        hints["gang"] = GangHint(**gang)
    if within is not None:
        hints["within"] = Within(**within)
    return PodClaim(tuple(map(_read_container, given["containers"])), Hints(**hints))


def _read_container(given: Mapping[str, Any]) -> ContainerClaim:
    words = dict(given)
    name, kind, dialects = words.pop("container"), words.pop("kind"), tuple(words.pop("dialects", ()))
    select = {key: tuple(map(_frozen, value)) for key, value in (words.pop("select", None) or {}).items()}
    if "sharing" in words:
        words["sharing"] = Sharing(words["sharing"])
    ask = Ask(**words, select=Select(**select))
    numbers = (ask.count, *(n for n in (ask.gpu_milli, ask.memory_bytes, ask.memory_milli) if n is not None))
    if any(not isinstance(number, int) or number < 1 for number in numbers):
        raise ValueError("numbers are whole and above 0")
    return ContainerClaim(str(name), str(kind), ask, dialects)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
