"""Follows switches of cards to their ends, over whatever the pool does meanwhile."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

from gpupool.base.errors import PoolNotRunning
from gpupool.cli.planning.mode_progress import LONGEST_PAUSE_SECONDS, follow_switches

SWITCH = {"card": "n:0", "uuid": "GPU-0", "mode": "mig"}


class ScriptedAnswers:
    """Stands for the pool's API: gives the answers of a path in their order."""

    def __init__(self, **answers: list[Any]) -> None:
        self._answers: dict[str, Iterator[Any]] = {
            path: iter(given) for path, given in answers.items()
        }

    def request(self, _method: str, path: str, **_query: Any) -> Any:
        answer = next(self._answers[path.partition("/")[0]])
        if isinstance(answer, Exception):
            raise answer
        return answer


def device(mode: str = "plain", **switch: Any) -> dict[str, Any]:
    found = {"wanted": "mig", "reason": "", **switch} if switch else None
    return {"uuid": "GPU-0", "mode": mode, "shares": 2, "switch": found}


def follow(
    api: ScriptedAnswers, pause: Callable[[float], None] = lambda _seconds: None
) -> tuple[dict[str, Any], list[str]]:
    stream = io.StringIO()
    ends = follow_switches(api, [SWITCH], 7, stream, pause)  # type: ignore[arg-type]
    return ends["GPU-0"], stream.getvalue().splitlines()


def test_each_state_is_shown_once() -> None:
    draining = device(state="draining")
    switching = device(state="switching", reason="GPU-0 is reset")
    api = ScriptedAnswers(devices=[draining, draining, switching, switching, device("mig")])
    assert follow(api) == (
        {"state": "done", "reason": ""},
        ["n:0: draining: 2 shares on it", "n:0: switching: GPU-0 is reset", "n:0: done"],
    )


def test_a_failure_has_the_reason_of_its_last_event() -> None:
    failed = {"kind": "device.mode_failed", "data": {"uuid": "GPU-0", "reason": "dcgm has it open"}}
    other = {"kind": "device.mode_failed", "data": {"uuid": "GPU-1", "reason": "another card's"}}
    early = {"kind": "job.ended", "data": {}}
    pages = [[{"seq": 8, **early}], [{"seq": 9, **failed}, {"seq": 10, **other}], []]
    end, lines = follow(ScriptedAnswers(devices=[device()], events=pages))
    assert end == {"state": "failed", "reason": "dcgm has it open"}
    assert lines == ["n:0: failed: dcgm has it open"]


def test_a_card_that_was_asked_for_another_mode_is_not_waited_for() -> None:
    end, _ = follow(ScriptedAnswers(devices=[device(wanted="plain", state="draining")]))
    assert end == {"state": "replaced", "reason": "it was asked for mode plain meanwhile"}


def test_a_pool_that_is_away_is_asked_again_ever_more_slowly() -> None:
    away = PoolNotRunning("no pool is running")
    pauses = list[float]()
    api = ScriptedAnswers(devices=[*[away] * 6, device("mig")])
    end, _ = follow(api, pauses.append)
    assert end["state"] == "done"
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
