"""The request for a gang in place of a refused count."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import TooManyCards
from gpupool.client.gangs.even_gang import choose_gang, describe_gang_request, make_gang_request

OFFER = TooManyCards("needs 16 cards on one node", gang={"members": 2, "count": 8})


def body(**more: Any) -> dict[str, Any]:
    shape = {"gpu_milli": 1000, "count": 16, **more.pop("shape", {})}
    return {"shape": shape, "launch": {"argv": ["true"]}, "attached": True, **more}


def test_the_same_cards_are_requested_as_members() -> None:
    # A body that the server has rendered names the fields that it lacks.
    asked = body(
        name="big",
        shape={"within": None},
        launch={"argv": ["true"], "container": {"image": "a", "terminal": True}},
    )
    gang = make_gang_request(asked, OFFER)
    assert gang == {
        "name": "big",
        "attached": False,
        "shape": {"gpu_milli": 1000, "count": 8, "within": None},
        "launch": {"argv": ["true"], "container": {"image": "a", "terminal": False}},
        "gang": {"name": "gang", "parts": [{"name": "member", "count": 2}]},
    }
    assert asked["shape"]["count"] == 16
    assert describe_gang_request(asked, gang) == (
        "16 cards are more than a node has: requested as a gang of 2 members of 8 cards each; "
        "the command runs once in each"
    )


@pytest.mark.parametrize(
    "asked",
    [
        body(array=3),
        body(gang={"name": "g", "parts": []}),
        body(shape={"within": {"required": "numa"}}),
    ],
)
def test_a_request_that_a_gang_cannot_have_stays_refused(asked: dict[str, Any]) -> None:
    assert make_gang_request(asked, OFFER) is None


def test_a_gang_that_may_not_be_asked_for_leaves_the_refusal() -> None:
    with pytest.raises(TooManyCards, match="needs 16 cards"):
        choose_gang(body(), OFFER, may_be_gang=False)
    with pytest.raises(TooManyCards):
        choose_gang(body(array=3), OFFER, may_be_gang=True)
    assert choose_gang(body(), OFFER, may_be_gang=True)["shape"]["count"] == 8


def test_a_refusal_without_an_offer_stays_a_refusal() -> None:
    assert make_gang_request(body(), TooManyCards("needs 17 cards on one node")) is None
