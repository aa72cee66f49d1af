"""A drain is over when gateways and load balancers have moved, and says what has not."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.cli.network.gateway_pair import _describe_states, _is_settled


def make_pair(state: str, balancers: int, *, is_drained: bool) -> dict[str, Any]:
    first = {"node": "m1", "state": state, "reason": "", "is_drained": is_drained}
    second = {"node": "m2", "state": "active", "reason": "", "is_drained": False}
    return {"machines": [{**first, "balancers": balancers}, {**second, "balancers": 1}]}


@pytest.mark.parametrize(
    ("state", "balancers", "is_over"),
    [("active", 1, False), ("away", 1, False), ("away", 0, True)],
)
def test_a_drain_waits_for_load_balancers(state: str, balancers: int, is_over: bool) -> None:
    pair = make_pair(state, balancers, is_drained=True)
    assert _is_settled(pair, "m1", {"away"}) is is_over


def test_the_end_of_a_drain_waits_for_none() -> None:
    pair = make_pair("standby", 1, is_drained=False)
    assert _is_settled(pair, "m1", {"active", "standby"})


def test_what_still_answers_is_named() -> None:
    text = _describe_states(make_pair("away", 2, is_drained=True))
    assert text.startswith("m1 is away and answers for 2 load balancers of HTTP; m2 is active")
