"""The check of resizing, of a pool on another machine and of one on this machine."""

from __future__ import annotations

import time

import pytest

from gpupool.verification.findings import PromiseFinding
from gpupool.verification.resize_check import check_resize
from tests.support.verification_pool import (
    MS,
    SHARE_BYTES,
    Line,
    ScriptedPool,
    build_run,
    get_findings,
    stretches,
)


def check(applied: float | None) -> dict[str, PromiseFinding]:
    pool = ScriptedPool({"resize": stretches(0.2, 0, 9000)})
    pool.applied_milliseconds = applied
    run = build_run(pool)
    check_resize(run)
    assert run.found.timelines == []
    return get_findings(run)


@pytest.mark.parametrize(
    ("applied", "kept", "measured"),
    [(200.0, True, "after 200 ms"), (201.0, False, "after 201 ms"), (None, False, "never")],
)
def test_resize_elsewhere_is_judged_by_what_the_node_says(
    applied: float | None, kept: bool, measured: str
) -> None:
    found = check(applied)
    assert set(found) == {"resize-grows", "resize-shrinks"}
    assert {(one.kept, one.measured) for one in found.values()} == {(kept, measured)}


def check_local(monkeypatch: pytest.MonkeyPatch, delay_ms: int) -> dict[str, PromiseFinding]:
    """Grown at 2 s, shrunk at 4 s of the clock that the job and this machine share."""
    moments = iter([2000 * MS, 4000 * MS])
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(moments))
    memory: list[Line] = []
    for at, size in ((2000 + delay_ms, 2 * SHARE_BYTES), (4000 + delay_ms, SHARE_BYTES)):
        memory.append({"kind": "memory", "at_ns": at * MS, "total_bytes": size})
    small, large = 2000 + delay_ms, 4000 + delay_ms
    rates = stretches(0.2, 0, small, 20) + stretches(0.6, small, large, 20)
    pool = ScriptedPool({"resize": [*rates, *stretches(0.2, large, 9000, 20), *memory]})
    pool.local = True
    run = build_run(pool)
    check_resize(run)
    return get_findings(run)


def test_resize_here_is_judged_by_rates_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check_local(monkeypatch, 200)
    assert {key: (one.kept, one.measured) for key, one in found.items()} == {
        "resize-grows-compute": (True, "after 200 ms"),
        "resize-grows-memory": (True, "after 200 ms"),
        "resize-shrinks-compute": (True, "after 200 ms"),
        "resize-shrinks-memory": (True, "after 200 ms"),
    }


def test_resize_here_that_comes_late_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(one.kept for one in check_local(monkeypatch, 220).values())
