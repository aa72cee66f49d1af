"""What cards draw: by their own name, by the trace's, by a family, and where nothing is known."""

from __future__ import annotations

import pytest

from gpupool.model.catalogue import CATALOGUE
from gpupool.model.power import CARD_WATTS, UNKNOWN_CARD, PowerDraw, find_power_draw


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("T4", PowerDraw(10, 70)),
        ("V100M32", PowerDraw(30, 300)),
        # No vendor says what it draws idle: a tenth of its full power.
        ("H200", PowerDraw(70, 700)),
        ("nobody-knows-it", UNKNOWN_CARD),
        ("", UNKNOWN_CARD),
    ],
)
def test_power_draw_follows_the_name_of_the_model(model: str, expected: PowerDraw) -> None:
    assert find_power_draw(model) == expected


def test_power_draw_of_another_spelling_is_that_of_the_model() -> None:
    assert find_power_draw("rtx-6000-ada") == CARD_WATTS["RTX-6000-Ada"]


def test_power_draw_swings_from_idle_to_full() -> None:
    assert PowerDraw(10, 70).swing == 60


def test_every_model_of_the_catalogue_has_its_watts() -> None:
    assert set(CATALOGUE) == set(CARD_WATTS)
    assert all(0 < one.idle < one.full for one in CARD_WATTS.values())
