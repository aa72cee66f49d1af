"""The checks of a card, in order: which run, and what becomes of one that cannot be shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.verification import checks
from gpupool.verification.check_run import CheckRun
from gpupool.verification.checks import CHECKS, CardCheck, CardChecks
from gpupool.verification.scale import FULL, QUICK, CheckScale
from tests.support.verification_pool import CARD_BYTES, ScriptedPool, build_bench, stretches


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the checks that ran, in place of what they do."""
    names: list[str] = []

    def note(name: str, check: CardCheck) -> CardCheck:
        return replace(check, run=lambda _run: names.append(name))

    noted = {name: note(name, check) for name, check in CHECKS.items()}
    monkeypatch.setattr(checks, "CHECKS", noted)
    return names


def build_checks(scale: CheckScale, pool: ScriptedPool | None = None) -> CardChecks:
    return CardChecks(build_bench(pool or ScriptedPool()), scale, CARD_BYTES)


def test_checks_of_a_full_verification_run_in_order(ran: list[str]) -> None:
    words = list(build_checks(FULL).run_checks())
    assert ran == ["memory", "fixed", "mixed", "burst", "neighbours", "resize"]
    assert words[0] == "memory: limits, and who is refused"


def test_checks_of_a_quick_verification_leave_out_the_slow_one(ran: list[str]) -> None:
    list(build_checks(QUICK).run_checks())
    assert "mixed" not in ran


def test_checks_that_are_named_run_alone(ran: list[str]) -> None:
    list(build_checks(FULL).run_checks(["resize", "memory"]))
    assert ran == ["memory", "resize"]


def test_check_that_cannot_be_shown_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: CheckRun) -> None:
        raise ServiceUnavailable("the job was silent")

    monkeypatch.setattr(checks, "CHECKS", {"memory": CardCheck("limits", fail)})
    made = build_checks(FULL)
    list(made.run_checks())
    (found,) = made.findings.findings
    assert (found.key, found.kept, found.measured) == ("memory", False, "the job was silent")


def test_identity_is_of_the_first_job_that_the_driver_answered() -> None:
    card = {"kind": "card", "uuid": "GPU-a", "total_bytes": 1, "free_bytes": 1}
    logs = {"burst": stretches(1.0, 0, 9000), "comes": [card, *stretches(0.5, 2000, 4000)]}
    pool = ScriptedPool(logs)
    made = build_checks(QUICK, pool)
    assert made.find_identity() == ({}, {})
    list(made.run_checks(["burst"]))
    found, job = made.find_identity()
    assert (found["uuid"], job["purpose"]) == ("GPU-a", "comes")
