"""The check of a share beside bad neighbours, on logs whose figures are known."""

from __future__ import annotations

from gpupool.base.units import MIB
from gpupool.verification.findings import PromiseFinding
from gpupool.verification.neighbour_check import ILLEGAL_ADDRESS, check_neighbours
from tests.support.verification_pool import (
    MS,
    SHARE_BYTES,
    Line,
    ScriptedPool,
    build_run,
    get_findings,
    stretches,
)

FREE = SHARE_BYTES - 500 * MIB


def check(
    beside: float = 0.3,
    result: int = ILLEGAL_ADDRESS,
    exit_code: int = 1,
    given: int = FREE,
    starts: int = 2,
) -> dict[str, PromiseFinding]:
    """The victim runs for 9 s; busy from 2 s to 4 s, the crash at 5 s, the kill at 7 s."""
    quiet = stretches(0.3, 0, 2000) + stretches(beside, 2000, 4000) + stretches(0.3, 4000, 9000)
    card: Line = {"kind": "card", "free_bytes": FREE, "at_ns": 7000 * MS}
    logs = {
        "quiet": quiet,
        "busy": stretches(0.7, 2000, 4000),
        "crash": [{"kind": "crashed", "at_ns": 5000 * MS, "result": result}],
        "killed": [*([card] * starts), {"kind": "refused", "given_bytes": given}],
    }
    run = build_run(ScriptedPool(logs, ended={"crash": {"exit_code": exit_code}}))
    check_neighbours(run)
    (timeline,) = run.found.timelines
    assert timeline.marks[0].at_ns == 2000 * MS
    return get_findings(run)


def list_broken(found: dict[str, PromiseFinding]) -> list[str]:
    return [key for key, one in found.items() if not one.kept]


def test_neighbours_that_harm_nothing_keep_every_promise() -> None:
    found = check()
    assert list_broken(found) == []
    assert {"fixed-alone", "beside-busy", "beside-crash", "beside-killed"} <= set(found)


def test_neighbour_that_slows_a_share_by_a_third_is_found() -> None:
    found = check(beside=0.2)
    assert list_broken(found) == ["beside-busy"]
    assert found["beside-busy"].measured == "+33.3 % (30.0 % before, 20.0 % then)"


def test_crash_with_another_result_or_exit_code_is_not_contained() -> None:
    assert list_broken(check(result=1)) == ["crash-contained"]
    assert list_broken(check(exit_code=0)) == ["crash-contained"]


def test_killed_process_whose_memory_stays_taken_is_found() -> None:
    assert list_broken(check(given=FREE - 4 * MIB)) == []
    assert list_broken(check(given=FREE - 4 * MIB - 1)) == ["killed-gives-back"]


def test_killed_process_that_was_never_seen_again_has_no_rate() -> None:
    found = check(starts=1)
    assert "beside-killed" not in found
    assert list_broken(check(starts=0)) == ["killed-gives-back"]
