"""Main memory for what is moved off the cards is added to what the program itself needs."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.allocations.submission.idle_choice import reserve_moved_memory
from gpupool.base.errors import BadOption
from gpupool.base.units import GIB
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn

RULES = IdleSuspensionRules(floor_seconds=30)


def ask(idle_seconds: int | None = 60, fence: bool = True, **shape: Any) -> JobIn:
    given = {"gpu_milli": 300, "memory_bytes": 8 * GIB, "host_bytes": 2 * GIB, **shape}
    return JobIn(
        shape=ShapeIn(**given),
        launch=LaunchIn(argv=["true"]),
        idle_seconds=idle_seconds,
        fence=fence,
    )


def test_the_memory_of_all_its_cards_is_added() -> None:
    assert reserve_moved_memory(ask(count=3), RULES).shape.host_bytes == 26 * GIB


def test_any_other_claim_is_left_as_it_is() -> None:
    body = ask(None)
    assert reserve_moved_memory(body, RULES) is body


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (ask(29), "before it was idle for 30 s"),
        (ask(memory_bytes=None), "needs --memory and --host-memory"),
        (ask(host_bytes=0), "needs --memory and --host-memory"),
        (ask(fence=False), "--no-fence"),
        (ask(sharing="mps"), "--sharing mps"),
        (ask(profile="1g.18gb", gpu_milli=0, memory_bytes=None), "a partition"),
    ],
)
def test_a_claim_that_cannot_be_suspended_is_refused(asked: JobIn, words: str) -> None:
    with pytest.raises(BadOption) as refused:
        reserve_moved_memory(asked, RULES)
    assert words in refused.value.message
