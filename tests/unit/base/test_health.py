"""Named checks: one that fails to look hides nothing of the others."""

from __future__ import annotations

from gpupool.base.health import CheckFinding, HealthChecks, fail, warn, well


def broken() -> CheckFinding:
    raise RuntimeError("the file is gone")


def build_checks() -> HealthChecks:
    checks = HealthChecks()
    checks.add("placing", lambda: well("a plan 1 s ago"))
    checks.add("disk", lambda: warn("90 % full"))
    checks.add("books", broken)
    checks.add("nodes", lambda: fail("silent", "see server.log"))
    return checks


def test_check_that_raises_is_a_finding_and_the_others_run() -> None:
    found = build_checks().run_all()
    assert list(found) == ["placing", "disk", "books", "nodes"]
    assert (found["books"].state, found["books"].text) == (
        "fail",
        "could not look: the file is gone",
    )
    assert found["nodes"] == CheckFinding("fail", "silent", "see server.log")


def test_list_unwell_tells_failures_from_warnings() -> None:
    assert build_checks().list_unwell() == {"fail": ["books", "nodes"], "warn": ["disk"]}


def test_check_that_is_added_again_replaces_the_earlier_one() -> None:
    checks = build_checks()
    checks.add("books", lambda: well("closed"))
    assert checks.list_unwell()["fail"] == ["nodes"]
