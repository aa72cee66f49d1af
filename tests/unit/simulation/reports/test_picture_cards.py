"""Stays on cards as boxes: where each lies, and how a card is named."""

from __future__ import annotations

import re

from gpupool.simulation.reports.picture_cards import CardStay, draw_cards, stack_stays


def test_shares_of_one_card_lie_above_each_other_and_take_the_place_of_what_left() -> None:
    def stay(name: str, milli: int, begin: int, end: int) -> CardStay:
        return CardStay(("n1", 0), name, "nlp", milli, begin, end)

    here = [
        stay("a", 400, 0, 10),
        stay("b", 600, 0, 20),
        stay("c", 300, 10, 30),
        stay("d", 100, 12, 13),
    ]
    assert [(one.claim, at) for one, at in stack_stays(here)] == [
        ("a", 0),
        ("b", 400),
        ("c", 0),
        ("d", 300),
    ]


def test_stack_stays_draws_a_card_given_away_twice_from_the_bottom() -> None:
    whole = CardStay(("n1", 0), "a", "nlp", 1000, 0, 10)
    second = CardStay(("n1", 0), "b", "nlp", 600, 5, 15)
    assert [(one.claim, at) for one, at in stack_stays([second, whole])] == [("a", 0), ("b", 0)]


def test_draw_cards_keeps_short_stays_and_stays_without_compute_visible() -> None:
    stays = [
        CardStay(("n1", 0), "short", "nlp", 1000, 0, 1),
        CardStay(("n1", 0), "none", "nlp", 0, 0, 86400 * 30, "evicted"),
    ]
    text = draw_cards([("n1", 0)], stays, 86400 * 30, {"nlp": "#123456"})
    boxes = re.findall(r'<rect [^>]*width="([\d.]+)" height="([\d.]+)" fill="#123456"', text)
    assert sorted(boxes)[0] == ("0.30", "12.00")
    assert sorted(boxes)[1][1] == "0.50"
    assert "none of nlp: 0.00 GPU, 0.00 d to 30.00 d, then evicted" in text
