"""How a command ended decides the job's last state and its reason."""

from __future__ import annotations

import pytest

from tests.support.house import House


@pytest.mark.parametrize(
    ("more", "state", "reason"),
    [
        ({"exit_code": 3}, "failed", "exit code 3"),
        ({"signal": 9, "reason": "signalled"}, "failed", "killed by SIGKILL"),
        ({"signal": 2, "reason": "signalled"}, "stopped", "interrupted (SIGINT)"),
        ({"exit_code": 143, "reason": "max_time"}, "failed", "ran longer than its --max-time"),
        ({"signal": 9, "reason": "interrupted"}, "stopped", "interrupted (Ctrl-C, twice)"),
        ({"signal": 9, "reason": "stopped"}, "failed", "stopped on its node"),
    ],
)
def test_how_a_command_ended_decides_the_last_state(
    house: House, more: dict[str, object], state: str, reason: str
) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "ended", **more)
    assert (house.job("a").state, house.job("a").reason) == (state, reason)
