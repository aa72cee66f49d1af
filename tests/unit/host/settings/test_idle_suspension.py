"""The factor and the floor come from the environment; what is not understood stops the start."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.host.settings.idle_suspension import FACTOR, FLOOR, read_idle_rules
from gpupool.model.suspension import IdleSuspensionRules


def test_without_variables_no_memory_is_lent_twice() -> None:
    assert read_idle_rules({}) == IdleSuspensionRules(60, 1000)


@pytest.mark.parametrize(("text", "milli"), [("1", 1000), ("1.5", 1500), ("2.125", 2125)])
def test_a_factor_is_read_in_thousandths(text: str, milli: int) -> None:
    assert read_idle_rules({FACTOR: text, FLOOR: "10"}) == IdleSuspensionRules(10, milli)


@pytest.mark.parametrize("text", ["0.9", "101", "x", "1,5", "-2", "1.2345"])
def test_another_factor_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        read_idle_rules({FACTOR: text})
