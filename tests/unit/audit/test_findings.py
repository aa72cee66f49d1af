"""A ledger against what the card says: what is accounted for, what is not, and how much doubt each
gets."""

import pytest

from gpupool.audit.findings import (
    CODE_ALLOWANCE_BYTES,
    LEAST_TOLERANCE_BYTES,
    MIB,
    CardProcess,
    ShrunkShares,
    compare_ledger,
    compute_allowance,
)
from gpupool.mechanisms.regions import (
    DeviceLimit,
    FenceDeviceUsage,
    FenceProcess,
    FenceUsage,
    ShareLimits,
)

CARD = "GPU-51090000-0000-0000-0000-0000000000ff"
SHARE = 1000 * MIB
LIMITS = ShareLimits(
    "al-1", "job-1", "physics", "soft", (DeviceLimit(CARD, SHARE, 48 << 30, 100 * MIB),)
)


def ledger(**by_pid: int) -> FenceUsage:
    """`p10=300`: process 10 has 300 MiB by its ledger."""
    processes = [
        FenceProcess(
            int(name[1:]),
            1,
            False,
            {CARD: FenceDeviceUsage(committed_bytes=size * MIB, gpu_ns=10**9, launches=1)},
        )
        for name, size in by_pid.items()
    ]
    return FenceUsage(tuple(processes), {CARD: 0}, {CARD: FenceDeviceUsage()})


def on_card(pid: int, size: int, gpu_ns: int | None = None, *others: int) -> CardProcess:
    return CardProcess((pid, *others), size * MIB, gpu_ns)


def test_a_ledger_that_says_what_the_card_says_is_no_finding() -> None:
    result = compare_ledger(
        LIMITS, ledger(p10=300), ledger(p10=300), {CARD: [on_card(10, 300, 10**9)]}
    )
    assert (result.findings, result.unaccounted) == ((), {CARD: {}})


@pytest.mark.parametrize(("before", "after"), [(300, 100), (100, 300)])
def test_memory_taken_or_given_back_while_we_look_is_accounted_for(before: int, after: int) -> None:
    result = compare_ledger(
        LIMITS, ledger(p10=before), ledger(p10=after), {CARD: [on_card(10, 300)]}
    )
    assert (result.findings, result.unaccounted[CARD]) == ((), {})


def test_a_process_without_a_slot_is_named_whatever_it_holds() -> None:
    (finding,) = compare_ledger(LIMITS, ledger(), ledger(p11=5), {CARD: [on_card(10, 0)]}).findings
    assert (finding.kind, finding.pid) == ("unregistered", 10)


def test_a_process_that_registered_while_we_looked_is_no_stranger() -> None:
    assert compare_ledger(LIMITS, ledger(), ledger(p10=1), {CARD: [on_card(10, 1)]}).findings == ()


def test_a_slot_that_says_its_pid_inside_a_namespace_is_recognised() -> None:
    assert (
        compare_ledger(
            LIMITS, ledger(p2=50), ledger(p2=50), {CARD: [on_card(4711, 50, None, 2)]}
        ).findings
        == ()
    )


def test_memory_beyond_the_ledger_is_a_figure_at_once_and_a_finding_beyond_the_tolerance() -> None:
    doubt = max(LEAST_TOLERANCE_BYTES, LIMITS.devices[0].context_bytes // 4) // MIB
    small = compare_ledger(
        LIMITS, ledger(p10=100), ledger(p10=100), {CARD: [on_card(10, 100 + doubt)]}
    )
    assert (small.findings, small.unaccounted) == ((), {CARD: {10: doubt * MIB}})
    (finding,) = compare_ledger(
        LIMITS, ledger(p10=100), ledger(p10=100), {CARD: [on_card(10, 101 + doubt)]}
    ).findings
    assert (finding.kind, finding.pid) == ("memory", 10)
    assert f"{doubt + 1} MiB" in finding.text


def test_code_that_only_a_real_card_knows_of_is_a_figure_and_no_finding_within_its_allowance() -> (
    None
):
    much = 100 + CODE_ALLOWANCE_BYTES // MIB
    result = compare_ledger(
        LIMITS, ledger(p10=100), ledger(p10=100), {CARD: [on_card(10, much)]}, CODE_ALLOWANCE_BYTES
    )
    assert (result.findings, result.unaccounted) == ((), {CARD: {10: CODE_ALLOWANCE_BYTES}})


@pytest.mark.parametrize("processes", [1, 2, 5, 16, 64])
def test_all_processes_of_an_allocation_share_one_bounded_allowance(processes: int) -> None:
    """Each of them held a GiB beside its ledger before, so 16 of them 16 GiB."""
    together = compute_allowance(processes, CODE_ALLOWANCE_BYTES) // MIB
    assert together <= 4096
    each, pids = together // processes, range(10, 10 + processes)
    empty = ledger(**{f"p{pid}": 0 for pid in pids})
    limits = ShareLimits(
        "al-1", "job-1", "physics", "soft", (DeviceLimit(CARD, 48 << 30, 48 << 30, 0),)
    )

    def kinds(size: int) -> list[str]:
        cards = {CARD: [on_card(pid, size) for pid in pids]}
        return [
            finding.kind
            for finding in compare_ledger(
                limits, empty, empty, cards, CODE_ALLOWANCE_BYTES
            ).findings
        ]

    assert kinds(each) == []
    assert kinds(each + LEAST_TOLERANCE_BYTES // MIB + 1)[:1] == ["memory"]


def test_many_processes_do_not_widen_the_share() -> None:
    pids = range(10, 26)
    usage = ledger(**{f"p{pid}": 62 for pid in pids})
    cards = {CARD: [on_card(pid, 62 + 400) for pid in pids]}
    kinds = [
        finding.kind
        for finding in compare_ledger(LIMITS, usage, usage, cards, CODE_ALLOWANCE_BYTES).findings
    ]
    assert kinds == ["memory", "over"]


def test_more_than_the_share_is_found_although_the_ledger_admits_it() -> None:
    (finding,) = compare_ledger(
        LIMITS, ledger(p10=1100), ledger(p10=1100), {CARD: [on_card(10, 1100)]}
    ).findings
    assert (finding.kind, finding.pid) == ("over", 0)
    assert "its share is 1000 MiB" in finding.text


def test_time_beyond_the_ledger_of_one_process_is_no_finding() -> None:
    """The ledger predicts before it measures, so an honest program with uneven kernels differs by
    any factor."""
    busy = [on_card(10, 1, 9_000 * 10**6)]
    assert compare_ledger(LIMITS, ledger(p10=1), ledger(p10=1), {CARD: busy}).findings == ()


def limits(mib: int, generation: int = 2) -> ShareLimits:
    return ShareLimits(
        "al-1", "job-1", "physics", "soft", (DeviceLimit(CARD, mib * MIB, 48 << 30),), generation
    )


def test_what_a_smaller_share_leaves_over_is_kept_and_must_not_grow_again() -> None:
    shrunk = ShrunkShares()
    assert shrunk.update_allowed("al-1", limits(1000), {CARD: 900 * MIB}) == {}
    assert shrunk.update_allowed("al-1", limits(200, 4), {CARD: 950 * MIB}) == {CARD: 1000 * MIB}
    assert shrunk.update_allowed("al-1", limits(200, 4), {CARD: 950 * MIB}) == {CARD: 950 * MIB}
    assert shrunk.update_allowed("al-1", limits(200, 4), {CARD: 500 * MIB}) == {CARD: 950 * MIB}
    assert shrunk.update_allowed("al-1", limits(200, 4), {CARD: 990 * MIB}) == {CARD: 500 * MIB}
    assert shrunk.update_allowed("al-1", limits(200, 4), {CARD: 100 * MIB}) == {CARD: 500 * MIB}
    assert shrunk.update_allowed("al-1", limits(200, 4), {CARD: 100 * MIB}) == {}
    grown = [on_card(10, 990)]
    (finding,) = compare_ledger(
        limits(200, 4), ledger(p10=990), ledger(p10=990), {CARD: grown}, 0, {CARD: 500 * MIB}
    ).findings
    assert finding.kind == "over"
    assert (
        compare_ledger(
            limits(200, 4), ledger(p10=990), ledger(p10=990), {CARD: grown}, 0, {CARD: 990 * MIB}
        ).findings
        == ()
    )


def test_an_agent_that_starts_takes_what_it_finds_of_a_resized_job_as_left_over_and_of_no_other() -> (
    None
):
    assert ShrunkShares().update_allowed("al-1", limits(200, 4), {CARD: 700 * MIB}) == {
        CARD: 700 * MIB
    }
    assert ShrunkShares().update_allowed("al-1", limits(200), {CARD: 700 * MIB}) == {}


def test_a_share_that_grew_and_shrank_between_two_looks_may_keep_what_it_ever_had() -> None:
    shrunk, highest = ShrunkShares(), {CARD: 1000 * MIB}
    assert shrunk.update_allowed("al-1", limits(300), {CARD: 290 * MIB}) == {}
    grown = shrunk.update_allowed("al-1", limits(400, 6), {CARD: 950 * MIB}, highest)
    assert grown == {CARD: 950 * MIB}
    # More than it ever had is no leftover, however often it was resized.
    more = shrunk.update_allowed("al-1", limits(400, 10), {CARD: 1500 * MIB}, highest)
    assert more == {CARD: 1000 * MIB}
    # One change hides nothing: what is held beyond the share before it and after it is too much.
    alone = ShrunkShares()
    assert alone.update_allowed("al-2", limits(300), {CARD: 290 * MIB}) == {}
    assert alone.update_allowed("al-2", limits(400, 4), {CARD: 950 * MIB}, highest) == {}


def test_what_a_share_ever_had_bounds_what_a_new_agent_takes_as_left_over() -> None:
    found = {CARD: 700 * MIB}
    highest = {CARD: 500 * MIB}
    allowed = ShrunkShares().update_allowed("al-1", limits(200, 4), found, highest)
    assert allowed == {CARD: 500 * MIB}


def test_an_allocation_that_is_gone_is_forgotten() -> None:
    shrunk = ShrunkShares()
    shrunk.update_allowed("al-1", limits(1000), {})
    shrunk.keep_only([])
    assert shrunk.update_allowed("al-1", limits(200), {CARD: 700 * MIB}) == {}
