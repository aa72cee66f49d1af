"""A whole manifest: every pod in it understood, and the same manifest again in our words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.dialects import facts as known_facts
from gpupool.dialects.contract import GangHint, PodClaim, merge_fields
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.manifests import unread
from gpupool.dialects.manifests.dra import ResourceClaims, resolve_claims
from gpupool.dialects.manifests.reading import understand_pod
from gpupool.dialects.manifests.workloads import PodTemplate, list_templates
from gpupool.dialects.manifests.writing import write_typed
from gpupool.dialects.pod import Path, read_mapping

NO_CLAIMS = ResourceClaims()


@dataclass(frozen=True)
class UnderstoodPod:
    """One pod template and what it asks for."""

    template: PodTemplate
    claim: PodClaim


def understand_document(
    document: object,
    facts: NodeFacts = known_facts.UNKNOWN,
    *,
    strict: bool = False,
    claims: ResourceClaims = NO_CLAIMS,
) -> list[UnderstoodPod]:
    """Every pod of a manifest, with what its object says of all of them. Errors have the `path` in
    the document.

    `claims` are the resource claims of the file that the document is from.
    """
    found = []
    for template in list_templates(document):
        found.append(_understand_template(template, facts, strict, claims))
    unread.check_unread(read_mapping(document, ()), (one.template.path for one in found))
    return _add_gangs(found)


def _understand_template(
    template: PodTemplate, facts: NodeFacts, strict: bool, claims: ResourceClaims
) -> UnderstoodPod:
    try:
        said = resolve_claims(
            template.pod, template.namespace, claims, alone=template.replicas == 1
        )
        claim = understand_pod(said.pod, facts, strict=strict)
    except GpupoolError as error:
        error.details["path"] = (*template.path, *error.details.get("path", ()))
        raise
    template = replace(template, pod=said.pod)
    if not claim.containers:
        return UnderstoodPod(template, replace(claim, notes=(*claim.notes, *said.notes)))
    notes = (*claim.notes, *said.notes, *template.notes)
    return UnderstoodPod(template, replace(claim, rules=(*said.rules, *claim.rules), notes=notes))


def _add_gangs(found: list[UnderstoodPod]) -> list[UnderstoodPod]:
    """With the gangs of their objects, counting only members that ask for cards: for others no seat
    is kept.

    The members without cards start on their own, so those with cards need to make up the rest of
    the minimum.
    """
    asking = [one for one in found if one.claim.containers]
    sizes = Counter[str]()
    for one in asking:
        if (gang := one.template.hints.gang) is not None:
            sizes[gang.name] += one.template.replicas or 0
    return [_add_gang_hint(one, sizes) if one.claim.containers else one for one in found]


def _add_gang_hint(one: UnderstoodPod, sizes: Mapping[str, int]) -> UnderstoodPod:
    hints = one.template.hints
    rules = one.claim.rules
    gang = one.template.hints.gang
    if gang is not None:
        size = sizes[gang.name]
        # Pods without cards start on their own: the rest of the minimum has to come from those
        # with.
        least = max(1, (gang.minimum or size) - ((gang.size or size) - size))
        hints = replace(hints, gang=GangHint(gang.name, least, size) if size > 1 else None)
    if hints.gang is not None and one.claim.hints.gang is None:
        least = hints.gang.minimum or 0
        size = hints.gang.size or 0
        rules = (
            *rules,
            f"{one.template.kind} {one.template.name}: {least} of {size} pods start together",
        )
    return UnderstoodPod(
        one.template, replace(one.claim, hints=merge_fields(one.claim.hints, hints), rules=rules)
    )


def rewrite_document(document: Mapping[str, Any], understood: Iterable[UnderstoodPod]) -> Any:
    """The manifest with its pods in our words; what asks for no cards stays as it is."""
    new: Any = document
    for one in understood:
        if one.claim.containers:
            new = _replace_at(new, one.template.path, write_typed(one.template.pod, one.claim))
    return new


def _replace_at(value: Any, path: Path, new: Any) -> Any:
    """The value with another one at that place; what it was made of is not changed."""
    if not path:
        return new
    step = path[0]
    rest = path[1:]
    if isinstance(value, Mapping):
        key = next(key for key in value if str(key) == step)
        return {**value, key: _replace_at(value[key], rest, new)}
    found = []
    for number, one in enumerate(value):
        found.append(_replace_at(one, rest, new) if number == step else one)
    return found
