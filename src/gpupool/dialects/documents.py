"""A whole manifest: every pod in it understood, and the same manifest again in our words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.dialects import facts as known_facts
from gpupool.dialects import unread
from gpupool.dialects.contract import GangHint, PodClaim, joined
from gpupool.dialects.dra import Claims, resolved
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Path, mapping
from gpupool.dialects.reading import understand
from gpupool.dialects.workloads import Template, templates
from gpupool.dialects.writing import typed

NO_CLAIMS = Claims()


@dataclass(frozen=True)
class Understood:
    """One pod template and what it asks for."""

    template: Template
    claim: PodClaim


def understand_document(
    document: object,
    facts: NodeFacts = known_facts.UNKNOWN,
    *,
    strict: bool = False,
    claims: Claims = NO_CLAIMS,
) -> list[Understood]:
    """Every pod of a manifest, with what its object says of all of them. Errors have the `path` in the document.

    `claims` are the resource claims of the file that the document is from.
    """
    found = [_one(template, facts, strict, claims) for template in templates(document)]
    unread.check(mapping(document, ()), (one.template.path for one in found))
    return _in_gangs(found)


def _one(template: Template, facts: NodeFacts, strict: bool, claims: Claims) -> Understood:
    try:
        said = resolved(template.pod, template.namespace, claims, alone=template.replicas == 1)
        claim = understand(said.pod, facts, strict=strict)
    except GpupoolError as error:
        error.details["path"] = (*template.path, *error.details.get("path", ()))
        raise
    template = replace(template, pod=said.pod)
    if not claim.containers:
        return Understood(template, replace(claim, notes=(*claim.notes, *said.notes)))
    notes = (*claim.notes, *said.notes, *template.notes)
    return Understood(template, replace(claim, rules=(*said.rules, *claim.rules), notes=notes))


def _in_gangs(found: list[Understood]) -> list[Understood]:
    """With the gangs of their objects, counting only members that ask for cards: for others no seat is kept.

    The members without cards start on their own, so those with cards need to make up the rest of the minimum.
    """
    asking = [one for one in found if one.claim.containers]
    sizes = Counter[str]()
    for one in asking:
        if (gang := one.template.hints.gang) is not None:
            sizes[gang.name] += one.template.replicas or 0
    return [_hinted(one, sizes) if one.claim.containers else one for one in found]


def _hinted(one: Understood, sizes: Mapping[str, int]) -> Understood:
    hints, rules, gang = one.template.hints, one.claim.rules, one.template.hints.gang
    if gang is not None:
        size = sizes[gang.name]
        least = max(1, (gang.minimum or size) - ((gang.size or size) - size))
        hints = replace(hints, gang=GangHint(gang.name, least, size) if size > 1 else None)
    if hints.gang is not None and one.claim.hints.gang is None:
        least, size = hints.gang.minimum or 0, hints.gang.size or 0
        rules = (*rules, f"{one.template.kind} {one.template.name}: {least} of {size} pods start together")
    return Understood(one.template, replace(one.claim, hints=joined(one.claim.hints, hints), rules=rules))


def rewritten(document: Mapping[str, Any], understood: Iterable[Understood]) -> Any:
    """The manifest with its pods in our words; what asks for no cards stays as it is."""
    new: Any = document
    for one in understood:
        if one.claim.containers:
            new = _replaced(new, one.template.path, typed(one.template.pod, one.claim))
    return new


def _replaced(value: Any, path: Path, new: Any) -> Any:
    """The value with another one at that place; what it was made of is not changed."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        key = next(key for key in value if str(key) == step)
        return {**value, key: _replaced(value[key], rest, new)}
    return [_replaced(one, rest, new) if number == step else one for number, one in enumerate(value)]
