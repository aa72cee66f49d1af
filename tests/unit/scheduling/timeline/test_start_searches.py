import numpy as np
import pytest

from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.scheduling.filtering.capacity_columns import (
    SeatAmounts,
)
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.timeline.earliest_start import (
    StartTrial,
)
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END
from tests.support.scheduling_builders import whole
from tests.support.start_builders import attempt, backfill, busy, count_looks


def test_heads_alike_that_hold_nothing_share_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, jobs = busy("4x1xT4", None, None, None, None)
    work, tried, counted = backfill(pool, jobs), list[int](), count_looks(monkeypatch)

    def place(at: int) -> SeatAmounts | None:
        tried.append(at)
        return attempt(work.free, whole()).attempt(at)

    def head(tenant: str, alike: str | None) -> tuple[int, int]:
        counted.clear()
        tried.clear()
        promise = work.promise_start(
            [(ClaimFit(whole(), work.free), 1)], 5, StartTrial(place, alike=alike), lacks=tenant
        )
        assert promise is not None
        assert promise.at_ns == UNKNOWN_END
        return len(counted), len(tried)

    first = head("nlp", "one")
    assert first[1] == 1
    assert head("web", "one") == (0, 0)
    assert head("ads", None) == first
    none: Ints = np.zeros(0, dtype=np.int64)
    work.add_taken(SeatAmounts(none, none, none), 7 * SECOND)  # one more instant
    assert head("maps", "one")[1] == 1
    work.free.set_cards(np.array([3]), np.array([100]), np.array([0]))
    assert head("news", "one")[1] == 1
