"""What a claim would get on the cards of a pool: one answer for all cards that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.model.claim import NAMED_KINDS, Shape
from gpupool.model.isolation.claim_needs import ClaimNeeds
from gpupool.scheduling.mechanism_choice.choice import (
    MechanismChoice,
    MechanismOption,
    OfferedCard,
    choose_mechanisms,
)
from gpupool.scheduling.mechanism_choice.sentences import format_switch
from gpupool.scheduling.mechanism_choice.sizes import format_amounts

#: Groups of cards that a refusal describes; `explain` has all.
DESCRIBED_GROUPS = 3

#: Of cards whose agent publishes nothing: those of a cluster, and of logs and traces.
NO_MECHANISMS = "their node does not say what isolates its claims"

#: Model, memory, identity of the offers, other owners.
_Key = tuple[str, int, int, tuple[str, ...]]


@dataclass(frozen=True)
class CardGroup:
    """Cards with the same answer.

    Attributes:
        model: of the first one.
        cards: their names, in the order of the pool.
    """

    model: str
    cards: tuple[str, ...]
    choice: MechanismChoice


def survey_cards(
    shape: Shape, needs: ClaimNeeds, cards: Iterable[OfferedCard], tenant: str = ""
) -> tuple[CardGroup, ...]:
    """Return the answer for each kind of card, in the order of their first cards.

    Cards are alike if model, memory and other tenants on them are equal, and their offers are one
    object.
    """
    names = dict[_Key, list[str]]()
    first = dict[_Key, OfferedCard]()
    for card in cards:
        others = tuple(sorted(owner for owner in card.owners if owner != tenant))
        is_owned = any(offer.one_owner for offer in card.offers.mechanisms)
        # By identity: to compare the offers of ten thousand cards takes longer than all the rest.
        key: _Key = (card.model, card.memory_bytes, id(card.offers), others if is_owned else ())
        first.setdefault(key, card)
        names.setdefault(key, []).append(card.name)
    groups = []
    for key, card in first.items():
        choice = choose_mechanisms(shape, needs, card, tenant)
        groups.append(CardGroup(card.model, tuple(names[key]), choice))
    return tuple(groups)


def find_best_group(groups: Iterable[CardGroup]) -> CardGroup | None:
    """Return the first group that serves the claim now; None where none does."""
    for group in groups:
        if group.choice.now is not None:
            return group
    return None


@dataclass(frozen=True)
class RefusalText:
    """Why no card serves a claim.

    Attributes:
        sentence: all of it in one line.
        lines: the same in lines, a mechanism each.
        hint: the next steps, a line each.
    """

    sentence: str
    lines: tuple[str, ...]
    hint: str


def describe_refusal(shape: Shape, needs: ClaimNeeds, groups: tuple[CardGroup, ...]) -> RefusalText:
    """Return why no card serves the claim, with the rejected mechanisms, and the next step."""
    words = [f"--{name} {value}" for name, value in needs.write().items()]
    if shape.sharing in NAMED_KINDS:
        words.insert(0, f"--sharing {shape.sharing}")
    asked = " ".join(words)
    least = shape.memory_bytes
    amounts = shape.profile or (format_amounts(shape, least) if least is not None else str(shape))
    what = f"no card gives {asked} to {amounts}"
    parts = list[str]()
    lines = [what]
    for group in groups[:DESCRIBED_GROUPS]:
        rejected = group.choice.rejected
        # Where a kind of sharing is named, the reason of the mechanism of that name counts.
        named = [row for row in rejected if row.mechanism == shape.sharing]
        rows = [f"{row.mechanism}: {row.reason}" for row in named or rejected]
        for option in group.choice.options:
            rows.append(_describe_switched(option))
        rows = rows or [NO_MECHANISMS]
        kind = f"{len(group.cards)} × {group.model}"
        parts.append(f"{kind} ({'; '.join(rows)})")
        lines += [f"{kind}:", *(f"- {row}" for row in rows)]
    more = len(groups) - DESCRIBED_GROUPS
    if more > 0:
        parts.append(f"and {more} more kinds of cards")
        lines.append(parts[-1])
    sentence = f"{what}: {', '.join(parts)}"
    return RefusalText(sentence, tuple(lines), _find_next_step(groups))


def _describe_switched(option: MechanismOption) -> str:
    return f"{option.mechanism}: {option.why}"


def _find_next_step(groups: tuple[CardGroup, ...]) -> str:
    """Return what the user can ask for instead, and what an admin can switch."""
    sizes = list[str]()
    switches = list[str]()
    for group in groups:
        for row in group.choice.rejected:
            if row.advice:
                sizes.append(f"ask for  {row.advice}  ({row.mechanism})")
        for option in group.choice.options:
            if option.switch is not None:
                command = f"gpupool mode {group.cards[0]} {option.switch.mode}"
                switches.append(f"an admin can run  {command}  ({format_switch(option.switch)})")
    steps = (*sizes[:1], *switches[:1], "gpupool mechanisms  shows what each card can do")
    return "\n".join(steps)
