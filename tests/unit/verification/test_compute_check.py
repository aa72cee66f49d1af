"""Checks of compute, on logs whose rates are known."""

from __future__ import annotations

from gpupool.verification.compute_check import check_burst, check_fixed, check_mixed
from gpupool.verification.findings import PromiseFinding
from tests.support.verification_pool import ScriptedPool, build_run, get_findings, stretches


def fixed(small: float, middle: float, large: float, **more: bool) -> dict[str, PromiseFinding]:
    rates = {"fixed-100": small, "fixed-300": middle, "fixed-600": large}
    logs = {name: stretches(rate, 0, 3000) for name, rate in rates.items()}
    run = build_run(ScriptedPool(logs, **more))
    check_fixed(run)
    assert [(bar.asked, round(bar.measured, 6)) for bar in run.found.bars] == [
        (0.1, small),
        (0.3, middle),
        (0.6, large),
    ]
    return get_findings(run)


def test_fixed_shares_at_what_they_asked_for_are_kept() -> None:
    found = fixed(0.1, 0.3, 0.6)
    assert {key: one.kept for key, one in found.items()} == {
        "fixed-100-fixed": True,
        "fixed-300-fixed": True,
        "fixed-600-fixed": True,
        "fairness": True,
        "ratio": True,
        "tenants": True,
    }


def test_fixed_share_below_its_part_is_broken_with_the_ratios() -> None:
    found = fixed(0.1, 0.2, 0.6)
    assert not found["fixed-300-fixed"].kept
    assert found["fixed-300-fixed"].measured == "20.0 % ± 0.0 points, 66.7 % delivered"
    assert (found["ratio"].kept, found["ratio"].measured) == (False, "3.000")
    assert not found["fairness"].kept
    assert found["fixed-600-fixed"].kept


def test_fixed_shares_without_a_second_tenant_leave_tenants_unshown() -> None:
    found = fixed(0.1, 0.3, 0.6, admin=False)
    assert found["tenants"].kept is None
    assert found["tenants"].measured == "not shown: only an admin can make tenants"


def test_mixed_loads_with_unequal_parts_are_broken() -> None:
    logs = {"graphs": stretches(0.55, 0, 3000), "20-ms": stretches(0.45, 0, 3000)}
    run = build_run(ScriptedPool(logs))
    check_mixed(run)
    found = get_findings(run)
    assert not found["mixed-500-graphs"].kept
    assert not found["mixed-500-20-ms"].kept


def burst(guest_delay_ms: int, beside: float = 0.5) -> dict[str, PromiseFinding]:
    lender = stretches(1.0, 0, 2000) + stretches(beside, 2000, 4000) + stretches(1.0, 4000, 6000)
    guest = stretches(0.0, 2000, 2000 + guest_delay_ms) + stretches(
        0.5, 2000 + guest_delay_ms, 4000
    )
    run = build_run(ScriptedPool({"burst": lender, "comes": guest}))
    check_burst(run)
    return get_findings(run)


def test_burst_share_that_gives_back_at_once_is_kept() -> None:
    found = burst(200)
    assert [one.kept for one in found.values()] == [True, True, True]
    assert found["burst-given-back"].measured == "after 200 ms"


def test_burst_share_that_gives_back_late_is_broken() -> None:
    found = burst(300)
    assert (found["burst-given-back"].kept, found["burst-given-back"].measured) == (
        False,
        "after 300 ms",
    )


def test_burst_share_below_its_own_promise_is_broken() -> None:
    assert not burst(100, beside=0.26)["burst-guaranteed"].kept
