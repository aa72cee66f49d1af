"""What a person may choose for a server of JupyterHub, and how a refusal reads."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadFraction, BadOption, BadQuantity
from gpupool.base.units import GIB
from gpupool_jupyterhub.form import ServerBounds, ServerChoice, make_form, read_choice, read_form

BOUNDS = ServerBounds(most_gpu=500, most_memory=8 * GIB)
IMAGES = ServerBounds(images=("lab:1", "lab:2"))


def test_nothing_chosen_is_the_usual_share() -> None:
    assert read_choice({}, BOUNDS) == ServerChoice("0.25", "6GiB", "")
    assert read_choice({}, IMAGES).image == "lab:1"


def test_an_empty_memory_is_as_the_share() -> None:
    assert read_choice({"gpu": "0.5", "memory": " "}, BOUNDS) == ServerChoice("0.5", "", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": "0.6"}, "0.5 at most"),
        ({"gpu": "2"}, "2 cards"),
        ({"memory": "9GiB"}, "8192 MiB at most"),
        ({"image": "evil"}, "none of this hub"),
    ],
)
def test_more_than_the_bounds_is_refused_with_them(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        read_choice(options, BOUNDS)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(BadFraction):
        read_choice({"gpu": "much"}, BOUNDS)
    with pytest.raises(BadQuantity):
        read_choice({"memory": "lots"}, BOUNDS)


def test_the_form_has_the_usual_values_and_no_markup_of_names() -> None:
    text = make_form(ServerBounds(gpu='0.25"><script>', images=("<b>",)))
    assert "<script>" not in text
    assert "<b>" not in text
    assert make_form(BOUNDS).count("<input") == 2
    assert "<select" not in make_form(BOUNDS)


def test_a_form_that_was_sent_has_the_last_value_of_each_field() -> None:
    assert read_form({"gpu": ["0.1", " 0.2 "], "empty": []}) == {"gpu": "0.2"}
