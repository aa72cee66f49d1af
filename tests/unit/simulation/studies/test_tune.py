"""What would have shortened waits: found where it is true and only there, refused where too little
is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.errors import HistoryTooShort, UnknownPolicy, UnknownTenant
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape
from gpupool.model.quota import Quota
from gpupool.simulation.studies import tune as tuning
from gpupool.simulation.studies.tune import TuningAdvice, advise_changes
from gpupool.simulation.studies.tune_changes import ReplaySummary
from gpupool.simulation.traces.trace import JobArrival, TraceNode, WorkloadTrace

HOUR = 3600 * NS
NODES = (TraceNode("node-1", (("H200", 1 << 37),) * 4),)
WHOLE = Shape(1000, None)


def history(days: int, quotas: dict[str, Quota] | None = None) -> WorkloadTrace:
    """Two hours' work comes to each tenant at each of 16 hours a day: more than the quota of
    `small` lets run."""
    arrivals = []
    for hour in range(24 * days):
        if hour % 24 < 16:
            for number, tenant in enumerate(("small", "large")):
                at = hour * HOUR + number * NS
                arrivals.append(
                    JobArrival(f"{tenant}-{hour}", at, WHOLE, 2 * HOUR - NS * (hour % 7), tenant)
                )
    return WorkloadTrace("made", tuple(arrivals), {"small": 1, "large": 1}, NODES, quotas or {})


LIMITED = {"small": Quota(1000, 0), "large": Quota(3000, 0)}


def advised(trace: WorkloadTrace, **more: object) -> TuningAdvice:
    return advise_changes(trace, NODES, "default", lambda _part: None, workers=1, **more)  # type: ignore[arg-type]


def test_a_quota_that_held_jobs_back_is_found() -> None:
    found = advised(history(4, LIMITED), policies=("binpack",))
    by_words = {effect.words: effect for effect in found.effects}
    assert set(by_words) == {
        "policy binpack",
        "small: may borrow without limit",
        "small: 1.00 -> 2.00 GPU guaranteed",
        "small: 1.00 -> 2.00 GPU guaranteed, taken from large",
    }
    assert by_words["policy binpack"].verdict == "no difference seen"
    borrowing = by_words["small: may borrow without limit"]
    assert borrowing.verdict == "no difference seen", (
        "these jobs cannot be preempted, and so cannot borrow"
    )
    for words in (
        "small: 1.00 -> 2.00 GPU guaranteed",
        "small: 1.00 -> 2.00 GPU guaranteed, taken from large",
    ):
        effect = by_words[words]
        assert effect.verdict == "shorter", words
        assert effect.p95_difference.high < 0
        assert effect.p95 < found.p95
    assert found.effects[0].p95_difference.estimate == min(
        one.p95_difference.estimate for one in found.effects
    )


def test_where_nobody_waited_no_quota_is_changed() -> None:
    found = advised(history(4), policies=("binpack",))
    assert [effect.words for effect in found.effects] == ["policy binpack"]
    assert (found.p95, found.effects[0].verdict) == (0.0, "no difference seen")


def test_a_quota_that_is_asked_about_is_tried() -> None:
    found = advised(history(4, LIMITED), policies=(), quotas={"small": 3000})
    assert "small: 3.00 GPU guaranteed" in [effect.words for effect in found.effects]


def test_a_change_for_the_worse_is_said_to_be_longer() -> None:
    wide = {"small": Quota(2000, 0), "large": Quota(2000, 0)}
    found = advised(history(4, wide), policies=(), quotas={"small": 1000})
    effect = next(one for one in found.effects if one.words == "small: 1.00 GPU guaranteed")
    assert effect.verdict == "longer"


def test_a_short_history_is_refused_with_what_it_has() -> None:
    with pytest.raises(HistoryTooShort, match=r"32 jobs in 3 blocks of 6 h: advice needs 100 in 8"):
        advised(history(1))


def test_a_history_that_does_not_fit_in_the_time_is_refused() -> None:
    with pytest.raises(
        HistoryTooShort, match="in the time, only 64 jobs in 6 blocks of 6 h can be replayed"
    ):
        advised(history(4), seconds=0.0)


def test_of_a_history_that_is_too_long_the_latest_part_is_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = tuning.replay_history

    def slow(piece: tuning.TuningReplay, tell: object) -> ReplaySummary | None:
        late = len(piece.trace.arrivals) > 200
        return whole(replace(piece, deadline=0.0) if late else piece, lambda _part: None)

    monkeypatch.setattr(tuning, "replay_history", slow)
    found = advised(history(10), policies=("binpack",))
    assert (found.jobs, found.whole_days) == (160, 9.63)
    assert 4 < found.days < 5


def test_changes_for_which_the_time_ends_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tuning.replay_history

    def late(piece: tuning.TuningReplay, tell: object) -> ReplaySummary | None:
        over = piece.tried.policy == "fgd"
        return whole(replace(piece, deadline=0.0) if over else piece, lambda _part: None)

    monkeypatch.setattr(tuning, "replay_history", late)
    found = advised(history(4), policies=("fgd", "binpack"))
    assert (found.left_out, [one.words for one in found.effects]) == (
        ("policy fgd",),
        ["policy binpack"],
    )


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(UnknownPolicy):
        advised(history(4), policies=("binpak",))
    with pytest.raises(UnknownTenant):
        advised(history(4), quotas={"nobody": 1000})


def test_progress_goes_from_nothing_to_all() -> None:
    heard: list[float] = []
    advise_changes(history(4), NODES, "default", heard.append, policies=("binpack",), workers=1)
    assert heard == sorted(heard)
    assert (heard[0] < 0.1, heard[-1]) == (True, 1.0)
