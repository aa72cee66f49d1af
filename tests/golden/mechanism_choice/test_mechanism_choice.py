"""What sixty claims get on twelve nodes, with the printed reasons.

After an intended change: `GPUPOOL_UPDATE_GOLDEN=1 python -m pytest tests/golden/mechanism_choice`, and
read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpupool.model.isolation.mechanism_offer import list_missing_levels
from gpupool.scheduling.mechanism_choice.choice import can_serve, choose_mechanisms
from tests.support.offered_nodes import NODES, list_claims

FILE = Path(__file__).parent / "mechanism-choice.txt"
TENANT = "bank"


def test_sixty_claims_on_twelve_nodes_get_the_recorded_mechanisms() -> None:
    text = write_choices()
    if os.environ.get("GPUPOOL_UPDATE_GOLDEN") == "1":
        FILE.write_text(text, encoding="utf-8")
    assert text == FILE.read_text(encoding="utf-8"), (
        f"{FILE} differs; GPUPOOL_UPDATE_GOLDEN=1 writes it anew"
    )


def test_no_option_is_weaker_than_what_its_claim_asks() -> None:
    options = 0
    for _, shape, needs in list_claims():
        for card in NODES:
            for option in choose_mechanisms(shape, needs, card, TENANT).options:
                assert not list_missing_levels(option.levels, needs.minimum)
                options += 1
    assert options > 300


def test_the_filter_and_the_choice_agree_on_cards_without_owners() -> None:
    claims = list_claims()
    assert len(claims) == 60
    assert len(NODES) == 12
    for _, shape, needs in claims:
        for card in NODES:
            if card.owners:
                continue
            now = choose_mechanisms(shape, needs, card, TENANT).now is not None
            assert now == can_serve(shape, needs, card.memory_bytes, card.offers)


def write_choices() -> str:
    """Write each node with its reasons by number, and a line for each claim."""
    lines = list[str]()
    for card in NODES:
        numbers = dict[str, int]()
        rows = list[str]()
        for words, shape, needs in list_claims():
            choice = choose_mechanisms(shape, needs, card, TENANT)
            served = []
            for option in choice.options:
                switch = "" if option.switch is None else f" (after {option.switch.mode})"
                name = "+".join((option.mechanism, *option.layers))
                served.append(f"{name}{switch} {number(numbers, option.why)}")
            refused = []
            for row in choice.rejected:
                reason = row.reason + (f" [{row.advice}]" if row.advice else "")
                refused.append(f"{row.mechanism} {number(numbers, reason)}")
            rows.append(f"  {words}: {' > '.join(served) or '-'} | {', '.join(refused)}")
        lines += [f"{card.name} ({card.model})", *rows]
        lines += [f"    {count}: {reason}" for reason, count in numbers.items()]
    return "\n".join(lines) + "\n"


def number(numbers: dict[str, int], reason: str) -> int:
    return numbers.setdefault(reason, len(numbers) + 1)
