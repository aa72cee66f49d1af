"""`--when-idle` and `--idle-after` as a submission sends them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.client.idle_choice import USUAL_SECONDS, idle_body
from gpupool.model.suspension import USUAL_IDLE_SECONDS


def test_the_usual_time_is_that_of_the_model() -> None:
    assert idle_body("suspend", None) == {"idle_seconds": USUAL_IDLE_SECONDS}
    assert USUAL_SECONDS == USUAL_IDLE_SECONDS


def test_a_time_is_sent_in_seconds() -> None:
    assert idle_body("suspend", "10m") == {"idle_seconds": 600}


@pytest.mark.parametrize(("action", "after"), [(None, "60s"), ("stop", None)])
def test_half_an_agreement_is_refused(action: str | None, after: str | None) -> None:
    with pytest.raises(BadOption):
        idle_body(action, after)
