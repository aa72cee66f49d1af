"""A pod becomes its normal form: every dialect reads it, what they understood is brought together, or it is refused.

The one door of this room for pods: `understand(pod)`. Pure, and the same for admission and `gpupool import`.
"""

from __future__ import annotations

from collections.abc import Container as Names
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupool.base.errors import BadManifest, Contradiction, ForeignValue, UnknownWord
from gpupool.base.units import WHOLE
from gpupool.dialects import facts as known_facts
from gpupool.dialects import hami, native, normal, pod_rules, registry
from gpupool.dialects.contract import Ask, ContainerClaim, Dialect, Hints, PodClaim, Reading, Select, differing, joined
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Container, Pod, read_pod, sequence

Readings = list[tuple[Dialect, Reading]]
MOST = 100_000
CLAIMS = ("spec", "resourceClaims")


def understand(
    pod: Mapping[str, Any],
    facts: NodeFacts = known_facts.UNKNOWN,
    *,
    strict: bool = False,
    only: Names[str] | None = None,
) -> PodClaim:
    """The normal form of a pod or pod template, given as plain mappings.

    Raises the classes of `base.errors.BadManifest` (the words make no sense; `details["path"]` is the place),
    `NotExpressible` and `PodRefused` (they do, and the answer is no). With `strict` a word that begins as a known
    system's and is none of its words is refused; else it is noted. `only` are names of dialects: no other is read. A
    pod that asks for no cards has no containers in its claim, and nothing else is to be done with it.
    """
    view = read_pod(pod)
    if hami.opts_out(view):
        return PodClaim(notes=(f"{hami.IGNORE}: ignore: the pod is left alone",))
    if view.annotation(native.CLAIM) is not None:
        return _again(pod, view, facts)
    notes = _unknown(view, strict)
    selector = {key: str(word.value) for key, word in view.selector.items()}
    facts = known_facts.of_labels(selector, facts)
    spoken = [one for one in registry.DIALECTS if only is None or one.name in only]
    readings = [(one, found) for one in spoken if not (found := one.read(view, facts)).empty]
    claim = replace(_together(view, readings, notes), unread=_unread(pod, view, strict))
    return claim if not claim.containers else replace(claim, notes=(*claim.notes, *pod_rules.check(view, claim, facts)))


def _unread(pod: Mapping[str, Any], view: Pod, strict: bool) -> tuple[str, ...]:
    """What seems to ask for cards and is none of our business. Raises UnknownWord."""
    words = registry.unread(view)
    if strict and words:
        raise UnknownWord(f"{words[0]}: no dialect knows this card", path=words[0].path)
    claims = [str(one.get("name")) for one in sequence((pod.get("spec") or {}).get("resourceClaims"), CLAIMS)]
    by_driver = "is served by its DRA driver, and not by gpupool"
    return (
        *(f"{word}: no dialect knows this card; it is left to its device plugin" for word in words),
        *(f"resource claim {name} {by_driver}" for name in claims),
    )


def _again(pod: Mapping[str, Any], view: Pod, facts: NodeFacts) -> PodClaim:
    """What went through admission means what it meant then; what it must not be, it must not be still."""
    claim = normal.read_admitted(pod)
    for said in claim.containers:
        one = view.named(said.container)
        assert one is not None  # or its totals would not have been right
        if _checked(one, said.ask.completed()) != said.ask or said.kind != one.kind:
            raise BadManifest(f"{native.CLAIM} is no normal form of container {one.name}", path=one.path)
    return replace(claim, notes=pod_rules.check(view, claim, facts))


def _unknown(view: Pod, strict: bool) -> tuple[str, ...]:
    notes = []
    for word, near in registry.unknown(view):
        meant = f"did you mean {near}?" if near else "it is left as it is"
        if strict:
            raise UnknownWord(f"{word.key}: no known system has this word", hint=meant, path=word.path)
        notes.append(f"{word.key}: no known system has this word; {meant}")
    return tuple(notes)


def _together(view: Pod, readings: Readings, notes: tuple[str, ...]) -> PodClaim:
    claims = [claim for one in view.containers if (claim := _container(one, readings)) is not None]
    hints = _hints(readings)
    if hints.priority is None and view.priority_class is not None:
        hints = replace(hints, priority=view.priority_class)
    said = [found for _, found in readings]
    return PodClaim(
        tuple(claims),
        hints,
        tuple(text for found in said for text in found.rules),
        tuple(text for found in said for text in found.guesses),
        (*notes, *(text for found in said for text in found.notes)),
    )


def _container(one: Container, readings: Readings) -> ContainerClaim | None:
    asks = [(dialect, found.asks[one.name]) for dialect, found in readings if one.name in found.asks]
    if not asks:
        return None
    ask = _agreed(one, asks)
    for dialect, found in readings:
        ask = replace(ask, select=_selected(one, dialect, ask.select, found.select))
        if found.sharing is not None:
            ask = replace(ask, sharing=found.sharing)
    ask = _checked(one, replace(ask.completed(), select=_plain(ask.select)))
    return ContainerClaim(one.name, one.kind, ask, tuple(dialect.name for dialect, _ in asks))


def _agreed(one: Container, asks: list[tuple[Dialect, Ask]]) -> Ask:
    """The ask, if all who read one agree; what only one of them says besides is kept."""
    (first, ask), *others = asks
    for dialect, other in others:
        if _size(ask) != _size(other):
            raise Contradiction(
                f"container {one.name} asks in two ways: {first.name} {ask.completed()},"
                f" {dialect.name} {other.completed()}",
                hint="leave one of them out",
                path=(*one.path, "resources"),
            )
        against = [name for name in ("sharing", "urgency", "cap_milli") if _apart(ask, other, name)]
        if against:
            raise Contradiction(
                f"container {one.name}: {first.name} and {dialect.name} differ in {', '.join(against)}",
                path=(*one.path, "resources"),
            )
        ask = replace(
            ask,
            sharing=ask.sharing or other.sharing,
            usual=ask.usual or other.usual,
            cap_milli=ask.cap_milli or other.cap_milli,
            urgency=ask.urgency or other.urgency,
            select=_selected(one, dialect, ask.select, other.select),
            rules=ask.rules + other.rules,
            guesses=ask.guesses + other.guesses,
            notes=(*ask.notes, *other.notes, f"{first.name} and {dialect.name} say the same"),
        )
    return ask


def _size(ask: Ask) -> tuple[Any, ...]:
    done = ask.completed()
    return done.count, done.gpu_milli, done.memory_bytes, done.memory_milli, done.profile, done.vendor


def _apart(one: Ask, other: Ask, name: str) -> bool:
    mine, theirs = getattr(one, name), getattr(other, name)
    return mine is not None and theirs is not None and mine != theirs


def _selected(one: Container, dialect: Dialect, known: Select, more: Select) -> Select:
    """Both selections at once. Raises Contradiction where nothing is in both."""
    merged = {}
    for name in ("models", "uuids"):
        mine, theirs = getattr(known, name), getattr(more, name)
        both = tuple(value for value in mine if value in theirs) if mine and theirs else mine or theirs
        if mine and theirs and not both:
            raise Contradiction(
                f"container {one.name}: {dialect.name} wants {name} {', '.join(theirs)}, others {', '.join(mine)}",
                path=one.path,
            )
        merged[name] = both
    for name in ("not_models", "not_uuids", "labels"):
        merged[name] = tuple(dict.fromkeys((*getattr(known, name), *getattr(more, name))))
    return Select(**merged)


def _plain(select: Select) -> Select:
    """What is refused is taken out of what is wanted: a refusal wins."""
    models = tuple(name for name in select.models if name not in select.not_models)
    uuids = tuple(uuid for uuid in select.uuids if uuid not in select.not_uuids)
    for wanted, left, kind in ((select.models, models, "model"), (select.uuids, uuids, "card")):
        if wanted and not left:
            raise Contradiction(f"every {kind} that is wanted is refused as well: {', '.join(wanted)}")
    return replace(
        select,
        models=models,
        uuids=uuids,
        not_models=() if models else select.not_models,
        not_uuids=() if uuids else select.not_uuids,
    )


def _checked(one: Container, ask: Ask) -> Ask:
    """What every dialect must have got right: the last look before others rely on it."""
    sound = 1 <= ask.count <= MOST and (ask.gpu_milli is None or 1 <= ask.gpu_milli <= WHOLE)
    parts = (ask.cap_milli, ask.memory_milli)
    if not sound or any(part is not None and not 1 <= part <= WHOLE for part in parts):
        raise ForeignValue(f"container {one.name}: {ask} is no share of a card", path=one.path)
    if ask.memory_bytes is not None and ask.memory_milli is not None:
        raise ForeignValue(f"container {one.name}: memory is said in two ways", path=one.path)
    if ask.cap_milli is not None and ask.cap_milli < (ask.gpu_milli or 0):
        raise ForeignValue(f"container {one.name}: a cap below what is guaranteed", path=one.path)
    return ask


def _hints(readings: Readings) -> Hints:
    """What is said of the whole pod, by whomever. Raises Contradiction."""
    known, by = Hints(), ""
    for dialect, found in readings:
        against = differing(known, found.hints)
        if against:
            mine, theirs = getattr(known, against[0]), getattr(found.hints, against[0])
            raise Contradiction(
                f"two words for the pod's {against[0]}: {_shown(mine)} ({by}) and {_shown(theirs)} ({dialect.name})",
                hint="leave one of them out",
                path=("metadata",),
            )
        if found.hints != Hints():
            by = by or dialect.name
        known = joined(known, found.hints)
    return known


def _shown(value: Any) -> str:
    return str(
        getattr(value, "name", None) or getattr(value, "required", None) or getattr(value, "preferred", None) or value
    )
