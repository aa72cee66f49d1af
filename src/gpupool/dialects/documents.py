"""A whole manifest: every pod in it understood, and the same manifest again in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.dialects import facts as known_facts
from gpupool.dialects.contract import PodClaim, joined
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import Path
from gpupool.dialects.reading import understand
from gpupool.dialects.workloads import Template, templates
from gpupool.dialects.writing import typed


@dataclass(frozen=True)
class Understood:
    """One pod template and what it asks for."""

    template: Template
    claim: PodClaim


def understand_document(
    document: object, facts: NodeFacts = known_facts.UNKNOWN, *, strict: bool = False
) -> list[Understood]:
    """Every pod of a manifest, with what its object says of all of them. Errors have the `path` in the document."""
    return [_one(template, facts, strict) for template in templates(document)]


def _one(template: Template, facts: NodeFacts, strict: bool) -> Understood:
    try:
        claim = understand(template.pod, facts, strict=strict)
    except GpupoolError as error:
        error.details["path"] = (*template.path, *error.details.get("path", ()))
        raise
    if not claim.containers:
        return Understood(template, claim)
    rules = claim.rules
    if template.hints.gang is not None and claim.hints.gang is None:
        gang = template.hints.gang
        rules = (*rules, f"{template.kind} {template.name}: {gang.minimum} of {gang.size} pods start together")
    hints = joined(claim.hints, template.hints)
    return Understood(template, replace(claim, hints=hints, rules=rules, notes=(*claim.notes, *template.notes)))


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
