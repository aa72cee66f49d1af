"""Writes the normal form as plain data and as an annotation, and reads it back with its totals.

An annotation is an ask, never a grant: any tenant can edit it, or write it into a pod that no
admission has read. Resources of a pod cannot be changed after admission, so a claim that does not
come to their totals was altered and is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any

from gpupool.base.errors import BadManifest, ForeignValue, PodRejection
from gpupool.base.quantities import parse_quantity
from gpupool.base.units import WHOLE
from gpupool.dialects.amounts import MOST_BYTES, MOST_CARDS
from gpupool.dialects.contract import (
    POD_KINDS,
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
from gpupool.dialects.pod import Path, PodContainer, read_pod
from gpupool.model.claim import SharingKind, TopologyConstraint
from gpupool.model.isolation.claim_needs import read_needs

#: Characters of a text: a label's key is the longest name of Kubernetes (253 + 1 + 63).
LONGEST_TEXT = 317
#: Members of a gang. A plan of 100,000 that share cards took 46 s, and nothing else is placed
#: meanwhile; no cluster has so many pods that start together.
MOST_MEMBERS = 10_000
_FILTERS = frozenset(one.name for one in fields(CardFilter))


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
    check_gang(claim.hints.gang, word.path)
    for one in claim.containers:
        check_share(one.container, one.ask, word.path)
        _check_totals(one, view.find_container(one.container))
    asking = [view_one.name for view_one in view.containers if _has_known_resource(view_one)]
    if sorted(asking) != sorted(one.container for one in claim.containers):
        raise PodRejection(
            f"{native.CLAIM} is of other containers than those that ask: {', '.join(asking) or 'none'}",
            hint="make the pod anew: what it asks for is not changed afterwards",
            path=word.path,
        )
    return claim


def check_gang(gang: GangHint | None, path: Path) -> None:
    """Check that the gang has no more members than a plan can place one by one.

    Raises:
        ForeignValue: it has more.
    """
    if gang is not None and max(gang.minimum or 0, gang.size or 0) > MOST_MEMBERS:
        raise ForeignValue(f"a gang has {MOST_MEMBERS} members at most", path=path)


def check_share(container: str, ask: ContainerAsk, path: Path) -> None:
    """Check that the numbers are of a share of cards: larger ones overflow the scheduler's columns.

    Raises:
        ForeignValue: a number is out of its range, or two exclude each other.
    """
    sound = 1 <= ask.count <= MOST_CARDS and (ask.gpu_milli is None or 1 <= ask.gpu_milli <= WHOLE)
    sound = sound and (ask.memory_bytes or 0) <= MOST_BYTES
    parts = (ask.cap_milli, ask.memory_milli)
    if not sound or any(part is not None and not 1 <= part <= WHOLE for part in parts):
        raise ForeignValue(f"container {container}: {ask} is no share of a card", path=path)
    if ask.memory_bytes is not None and ask.memory_milli is not None:
        raise ForeignValue(f"container {container}: memory is said in two ways", path=path)
    if ask.cap_milli is not None and ask.cap_milli < (ask.gpu_milli or 0):
        raise ForeignValue(f"container {container}: a cap below what is guaranteed", path=path)


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
    # A claim without containers asks for nothing, and a pod without one has no place in a queue.
    if not given["containers"]:
        raise ValueError("it names no container")
    return PodClaim(tuple(map(_read_container, given["containers"])), said)


def _read_container(given: Mapping[str, Any]) -> ContainerClaim:
    select: dict[str, Any] = {}
    for key, value in (given.get("select") or {}).items():
        # Python would repeat an unknown name in its own message, whatever characters it has.
        if key not in _FILTERS:
            raise ValueError(f"select has no {key!r}")
        read = _read_label if key == "labels" else _read_text
        select[key] = tuple(map(read, value))
    ask = ContainerAsk(
        **_read_numbers(given, "count", "gpu_milli", "cap_milli", "memory_bytes", "memory_milli"),
        **_read_texts(given, "profile", "urgency", "vendor"),
        sharing=_read_sharing(given["sharing"]),
        names_sharing=False if given.get("names_sharing") is False else None,
        select=CardFilter(**select),
    )
    named = _read_texts(given, "container", "kind")
    return ContainerClaim(**named, ask=ask, dialects=tuple(map(str, given.get("dialects") or ())))


def _read_sharing(value: Any) -> SharingKind:
    # A container with any other kind never starts, and holds its card all the while.
    if value not in POD_KINDS:
        raise ValueError(f"{value!r} is no sharing of containers")
    return SharingKind(value)


def _read_label(value: Any) -> tuple[str, str]:
    key, text = value
    return _read_text(key), _read_text(text)


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ValueError(f"texts have {LONGEST_TEXT} characters at most")
    # JSON allows half of a surrogate pair, which no ledger and no log can be written with.
    value.encode()
    return value


def _read_texts(given: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found = {}
    for key in keys:
        if given.get(key) is not None:
            found[key] = _read_text(given[key])
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
