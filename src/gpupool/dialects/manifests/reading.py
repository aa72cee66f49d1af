"""Brings a pod into its normal form: every dialect reads it, and their readings are merged.

The entry point for pods is `understand_pod`. Pure, and the same for admission and `gpupool
import`.
"""

from __future__ import annotations

from collections.abc import Container as Names
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.base.errors import BadManifest, ContradictoryManifest, UnknownWord
from gpupool.dialects import facts as known_facts
from gpupool.dialects.contract import (
    CardFilter,
    ContainerAsk,
    ContainerClaim,
    Dialect,
    PodClaim,
    PodHints,
    PodReading,
    list_differences,
    merge_fields,
)
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes import hami, native
from gpupool.dialects.manifests import normal, pod_rules, registry
from gpupool.dialects.pod import PodContainer, PodView, read_pod, read_sequence

Readings = list[tuple[Dialect, PodReading]]
CLAIMS = ("spec", "resourceClaims")


def understand_pod(
    pod: Mapping[str, Any],
    facts: NodeFacts = known_facts.UNKNOWN,
    *,
    strict: bool = False,
    only: Names[str] | None = None,
) -> PodClaim:
    """The normal form of a pod or pod template, given as plain mappings.

    Raises the classes of `base.errors.BadManifest` (the words make no sense; `details["path"]` is the place),
    `NotExpressible` and `PodRejection` (they do, and the answer is no). With `strict` a word that begins as a known
    system's and is none of its words is refused; else it is noted. `only` are names of dialects: no other is read. A
    pod that asks for no cards has no containers in its claim, and nothing else is to be done with it.
    """
    view = read_pod(pod)
    if hami.opts_out(view):
        return PodClaim(notes=(f"{hami.IGNORE}: ignore: the pod is left alone",))
    if view.find_annotation(native.CLAIM) is not None:
        return _read_admitted(pod, view, facts)
    notes = _list_unknown(view, strict)
    selector = {key: str(word.value) for key, word in view.selector.items()}
    # A selector of the pod says as much about its node as a file of facts; the file wins.
    facts = known_facts.add_label_facts(selector, facts)
    spoken = [one for one in registry.DIALECTS if only is None or one.name in only]
    readings = []
    for one in spoken:
        if not (found := one.read(view, facts)).is_empty:
            readings.append((one, found))
    claim = replace(_merge_readings(view, readings, notes), unread=_list_unread(pod, view, strict))
    return (
        claim
        if not claim.containers
        else replace(claim, notes=(*claim.notes, *pod_rules.check_pod(view, claim, facts)))
    )


def _list_unread(pod: Mapping[str, Any], view: PodView, strict: bool) -> tuple[str, ...]:
    """What seems to ask for cards and is none of our business. Raises UnknownWord."""
    words = registry.list_unread_resources(view)
    if strict and words:
        raise UnknownWord(f"{words[0]}: no dialect knows this card", path=words[0].path)
    claims = []
    for one in read_sequence((pod.get("spec") or {}).get("resourceClaims"), CLAIMS):
        claims.append(str(one.get("name")))
    by_driver = "is served by its DRA driver, and not by gpupool"
    return (
        *(f"{word}: no dialect knows this card; it is left to its device plugin" for word in words),
        *(f"resource claim {name} {by_driver}" for name in claims),
    )


def _read_admitted(pod: Mapping[str, Any], view: PodView, facts: NodeFacts) -> PodClaim:
    """What went through admission means what it meant then; what it must not be, it must not be
    still."""
    claim = normal.read_admitted(pod)
    for said in claim.containers:
        one = view.find_container(said.container)
        # Checked against the pod's totals by `normal.read_admitted`.
        assert one is not None  # or its totals would not have been right
        if _check_ask(one, said.ask.complete()) != said.ask or said.kind != one.kind:
            raise BadManifest(
                f"{native.CLAIM} is no normal form of container {one.name}", path=one.path
            )
    return replace(claim, notes=pod_rules.check_pod(view, claim, facts))


def _list_unknown(view: PodView, strict: bool) -> tuple[str, ...]:
    notes = []
    for word, near in registry.list_unknown_words(view):
        meant = f"did you mean {near}?" if near else "it is left as it is"
        if strict:
            raise UnknownWord(
                f"{word.key}: no known system has this word", hint=meant, path=word.path
            )
        notes.append(f"{word.key}: no known system has this word; {meant}")
    return tuple(notes)


def _merge_readings(view: PodView, readings: Readings, notes: tuple[str, ...]) -> PodClaim:
    claims = []
    for one in view.containers:
        if (claim := _merge_container(one, readings)) is not None:
            claims.append(claim)
    hints = _merge_hints(readings)
    if hints.priority is None and view.priority_class is not None:
        hints = replace(hints, priority=view.priority_class)
    rules: list[str] = []
    guesses: list[str] = []
    all_notes = list(notes)
    for _, found in readings:
        rules += found.rules
        guesses += found.guesses
        all_notes += found.notes
    return PodClaim(tuple(claims), hints, tuple(rules), tuple(guesses), tuple(all_notes))


def _merge_container(one: PodContainer, readings: Readings) -> ContainerClaim | None:
    asks = [
        (dialect, found.asks[one.name]) for dialect, found in readings if one.name in found.asks
    ]
    if not asks:
        return None
    ask = _merge_asks(one, asks)
    for dialect, found in readings:
        ask = replace(ask, select=_merge_filters(one, dialect, ask.select, found.select))
        if found.sharing is not None:
            ask = replace(ask, sharing=found.sharing)
    ask = _check_ask(one, replace(ask.complete(), select=_simplify_filter(ask.select)))
    return ContainerClaim(one.name, one.kind, ask, tuple(dialect.name for dialect, _ in asks))


def _merge_asks(one: PodContainer, asks: list[tuple[Dialect, ContainerAsk]]) -> ContainerAsk:
    """Merge the asks of all dialects; they must agree on amounts and may add to each other."""
    (first, ask), *others = asks
    for dialect, other in others:
        if _list_amounts(ask) != _list_amounts(other):
            raise ContradictoryManifest(
                f"container {one.name} asks in two ways: {first.name} {ask.complete()},"
                f" {dialect.name} {other.complete()}",
                hint="leave one of them out",
                path=(*one.path, "resources"),
            )
        against = []
        for name in ("sharing", "urgency", "cap_milli"):
            if _do_differ(ask, other, name):
                against.append(name)
        if against:
            raise ContradictoryManifest(
                f"container {one.name}: {first.name} and {dialect.name} differ in {', '.join(against)}",
                path=(*one.path, "resources"),
            )
        ask = replace(
            ask,
            sharing=ask.sharing or other.sharing,
            usual=ask.usual or other.usual,
            cap_milli=ask.cap_milli or other.cap_milli,
            urgency=ask.urgency or other.urgency,
            select=_merge_filters(one, dialect, ask.select, other.select),
            rules=ask.rules + other.rules,
            guesses=ask.guesses + other.guesses,
            notes=(*ask.notes, *other.notes, f"{first.name} and {dialect.name} say the same"),
        )
    return ask


def _list_amounts(ask: ContainerAsk) -> tuple[Any, ...]:
    done = ask.complete()
    return (
        done.count,
        done.gpu_milli,
        done.memory_bytes,
        done.memory_milli,
        done.profile,
        done.vendor,
    )


def _do_differ(one: ContainerAsk, other: ContainerAsk, name: str) -> bool:
    mine = getattr(one, name)
    theirs = getattr(other, name)
    return mine is not None and theirs is not None and mine != theirs


def _merge_filters(
    one: PodContainer, dialect: Dialect, known: CardFilter, more: CardFilter
) -> CardFilter:
    """Both selections at once. Raises ContradictoryManifest where nothing is in both."""
    merged = {}
    for name in ("models", "uuids"):
        mine = getattr(known, name)
        theirs = getattr(more, name)
        both = mine or theirs
        if mine and theirs:
            both = tuple(value for value in mine if value in theirs)
        if mine and theirs and not both:
            raise ContradictoryManifest(
                f"container {one.name}: {dialect.name} wants {name} {', '.join(theirs)}, others {', '.join(mine)}",
                path=one.path,
            )
        merged[name] = both
    for name in ("not_models", "not_uuids", "labels"):
        merged[name] = tuple(dict.fromkeys((*getattr(known, name), *getattr(more, name))))
    return CardFilter(**merged)


def _simplify_filter(select: CardFilter) -> CardFilter:
    """What is refused is taken out of what is wanted: a refusal wins."""
    models = tuple(name for name in select.models if name not in select.not_models)
    uuids = tuple(uuid for uuid in select.uuids if uuid not in select.not_uuids)
    for wanted, left, kind in ((select.models, models, "model"), (select.uuids, uuids, "card")):
        if wanted and not left:
            raise ContradictoryManifest(
                f"every {kind} that is wanted is refused as well: {', '.join(wanted)}"
            )
    return replace(
        select,
        models=models,
        uuids=uuids,
        not_models=() if models else select.not_models,
        not_uuids=() if uuids else select.not_uuids,
    )


def _check_ask(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    """What every dialect must have got right: the last look before others rely on it."""
    normal.check_share(one.name, ask, one.path)
    return ask


def _merge_hints(readings: Readings) -> PodHints:
    """What is said of the whole pod, by whomever. Raises ContradictoryManifest, ForeignValue."""
    known = PodHints()
    by = ""
    for dialect, found in readings:
        against = list_differences(known, found.hints)
        if against:
            mine = getattr(known, against[0])
            theirs = getattr(found.hints, against[0])
            raise ContradictoryManifest(
                f"two words for the pod's {against[0]}: {_format_hint(mine)} ({by})"
                f" and {_format_hint(theirs)} ({dialect.name})",
                hint="leave one of them out",
                path=("metadata",),
            )
        if found.hints != PodHints():
            by = by or dialect.name
        known = merge_fields(known, found.hints)
    normal.check_gang(known.gang, ("metadata",))
    return known


def _format_hint(value: Any) -> str:
    return str(
        getattr(value, "name", None)
        or getattr(value, "required", None)
        or getattr(value, "preferred", None)
        or value
    )
