"""Writes the normal form as plain data and as an annotation, and reads it back with its totals.

An annotation is an ask, never a grant: any tenant can edit it. Resources of a pod cannot be changed
after admission, so a claim that does not come to their totals was altered and is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from gpupool.base.errors import BadManifest, PodRejection
from gpupool.base.quantities import parse_quantity
from gpupool.dialects.contract import (
    CardFilter,
    ContainerAsk,
    ContainerClaim,
    GangHint,
    PodClaim,
    PodHints,
    WordPlace,
)
from gpupool.dialects.kubernetes import native
from gpupool.dialects.manifests.registry import find_word
from gpupool.dialects.pod import PodContainer, read_pod
from gpupool.model.claim import SharingKind, TopologyConstraint
from gpupool.model.isolation.claim_needs import read_needs


def build_document(claim: PodClaim) -> dict[str, Any]:
    """Plain data: what is not said is left out. For JSON, YAML, and the annotation."""
    document = {
        "containers": [_write_container(one) for one in claim.containers],
        **make_plain({"pod": asdict(claim.hints)}),
    }
    for key in ("rules", "guesses", "notes", "unread"):
        if getattr(claim, key):
            document[key] = list(getattr(claim, key))
    return document


def dump_claim(claim: PodClaim) -> str:
    """The annotation's text: the claim without what was said about it."""
    bare = {
        "containers": [_write_container(one, bare=True) for one in claim.containers],
        "pod": make_plain(asdict(claim.hints)),
    }
    # Sorted and without spaces: equal claims are equal texts, and all annotations of a pod together
    # may have 256 KiB.
    return json.dumps(bare, sort_keys=True, separators=(",", ":"))


def read_admitted(pod: Mapping[str, Any]) -> PodClaim:
    """The claim of a pod that went through admission. Raises BadManifest, PodRejection."""
    view = read_pod(pod)
    word = view.find_annotation(native.CLAIM)
    if word is None:
        raise BadManifest(
            f"the pod has no annotation {native.CLAIM}: it did not go through admission"
        )
    try:
        claim = _read_claim(json.loads(str(word.value)))
    # A tenant wrote the text: each of these is a broken annotation, and none may end the admission.
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadManifest(f"{native.CLAIM} cannot be read: {error}", path=word.path) from None
    for one in claim.containers:
        _check_totals(one, view.find_container(one.container))
    asking = [view_one.name for view_one in view.containers if _has_known_resource(view_one)]
    if sorted(asking) != sorted(one.container for one in claim.containers):
        raise PodRejection(
            f"{native.CLAIM} is of other containers than those that ask: {', '.join(asking) or 'none'}",
            hint="make the pod anew: what it asks for is not changed afterwards",
            path=word.path,
        )
    return claim


def _has_known_resource(one: PodContainer) -> bool:
    return any(find_word(key, WordPlace.RESOURCE) for key in one.resources)


def _check_totals(one: ContainerClaim, view: Any) -> None:
    found = (
        {}
        if view is None
        else {k: word for k, word in view.resources.items() if find_word(k, WordPlace.RESOURCE)}
    )
    if not set(found) <= {native.SLOT, native.MILLI, native.MEMORY} or native.SLOT not in found:
        raise PodRejection(
            f"container {one.container} asks for {', '.join(found) or 'nothing'} beside what was admitted",
            hint="make the pod anew: what it asks for is not changed afterwards",
            path=("metadata", "annotations", native.CLAIM),
        )
    held = {key: parse_quantity(word.value) for key, word in found.items()}
    ask = one.ask
    # A tenant can edit annotations but not resources: the totals are what quota has counted.
    for key, wanted in ((native.MILLI, ask.held_milli), (native.MEMORY, ask.memory_bytes or 0)):
        if held.get(key, 0) != ask.count * wanted:
            raise PodRejection(
                f"container {one.container} was admitted with {key} {held.get(key, 0)},"
                f" and now claims {ask.count * wanted}",
                hint="make the pod anew: what it asks for is not changed afterwards",
                path=("metadata", "annotations", native.CLAIM),
            )


def _write_container(one: ContainerClaim, *, bare: bool = False) -> dict[str, Any]:
    found = {"container": one.container, "kind": one.kind, "dialects": one.dialects}
    found |= asdict(one.ask.without_remarks if bare else one.ask) | (
        {} if bare else {"share": str(one.ask)}
    )
    told: dict[str, Any] = make_plain(found)
    return told


def make_plain(value: Any) -> Any:
    """Mappings, lists, text and numbers alone; what is not said is left out of mappings."""
    if isinstance(value, dict):
        inner = {key: make_plain(one) for key, one in value.items()}
        found = {}
        for key, one in inner.items():
            if one not in (None, [], {}):
                found[key] = one
        return found
    if isinstance(value, (list, tuple)):
        return [make_plain(one) for one in value]
    return str(value) if isinstance(value, StrEnum) else value


def _read_claim(given: Mapping[str, Any]) -> PodClaim:
    hints = dict(given.get("pod") or {})
    gang = hints.pop("gang", None)
    within = hints.pop("within", None)
    needs = hints.pop("needs", None)
    said = PodHints(
        **_read_texts(hints, "queue", "priority"),
        gang=None
        if gang is None
        else GangHint(**_read_texts(gang, "name"), **_read_numbers(gang, "minimum", "size")),
        within=None
        if within is None
        else TopologyConstraint(**_read_texts(within, "required", "preferred")),
        preemptible=hints["preemptible"] is True if "preemptible" in hints else None,
        needs=None if needs is None else read_needs(needs),
    )
    return PodClaim(tuple(map(_read_container, given["containers"])), said)


def _read_container(given: Mapping[str, Any]) -> ContainerClaim:
    select = {}
    for key, value in (given.get("select") or {}).items():
        select[key] = tuple(map(_read_listed, value))
    ask = ContainerAsk(
        **_read_numbers(given, "count", "gpu_milli", "cap_milli", "memory_bytes", "memory_milli"),
        **_read_texts(given, "profile", "urgency", "vendor"),
        sharing=SharingKind(given["sharing"]),
        names_sharing=False if given.get("names_sharing") is False else None,
        select=CardFilter(**select),
    )
    named = _read_texts(given, "container", "kind")
    return ContainerClaim(**named, ask=ask, dialects=tuple(map(str, given.get("dialects") or ())))


def _read_listed(value: Any) -> Any:
    """A name, or a label: its key and value."""
    return tuple(map(str, value)) if isinstance(value, list) else str(value)


def _read_texts(given: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found = {}
    for key in keys:
        if given.get(key) is not None:
            found[key] = str(given[key])
    return found


def _read_numbers(given: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found = {}
    for key in keys:
        if given.get(key) is not None:
            found[key] = given[key]
    for number in found.values():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError("numbers are whole and above 0")
    return found
