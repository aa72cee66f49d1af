"""The audit of GPU time: a card's own figures against what the arbiter granted and knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gpupool.audit.time_audit import LOOKS, TimeAudit
from gpupool.mechanisms.arbiter import ShareStatus
from gpupool.mechanisms.regions import DeviceLimit

MS = 10**6
LOOK_MS = 400
SHARE = 0.3
LIMIT = DeviceLimit("GPU-1", 1, 1, gpu_milli=300)
OTHERS = [
    replace(LIMIT, sharing="burst"),
    replace(LIMIT, sharing="best-effort", gpu_milli=0),
    replace(LIMIT, sharing="offline", gpu_milli=0),
]


def says(
    owns_ns: float = 0,
    paid_ns: float = 0,
    flight_ns: float = 0,
    alone_ns: float = 0,
    ungranted_ns: float = 0,
) -> ShareStatus:
    return ShareStatus(
        "al-1", 0, int(owns_ns), int(paid_ns), int(flight_ns), int(alone_ns), int(ungranted_ns)
    )


def found_after_ms(
    part: float, owned: float, seconds: float = 30, mark: object = None
) -> int | None:
    """When a program is found that has `part` of the card and whose arbiter's balance moves by
    `owned` of the time."""
    audit, used, owns = TimeAudit(), 0.0, 0.0
    for at in range(0, int(seconds * 1000), LOOK_MS):
        if audit.add_look(LIMIT, {7: int(used)}, says(owns), (at + 1) * MS, mark=mark):
            return at
        used += part * LOOK_MS * MS
        owns = min(owns + owned * LOOK_MS * MS, 40 * MS)
    return None


@pytest.mark.parametrize(
    ("part", "most_ms"),
    [(0.934, 2400), (0.889, 2400), (0.736, 3200), (0.544, 5600)],
    ids=["ptr", "mount", "pin", "half"],
)
def test_time_that_the_arbiter_does_not_know_of_is_found_within_seconds(
    part: float, most_ms: int
) -> None:
    """The parts that these evasions had of a card on a share of 0.3."""
    after = found_after_ms(part, 0.0)
    assert after is not None
    assert after <= most_ms


def test_time_within_the_share_is_never_found_whatever_the_arbiter_says() -> None:
    assert found_after_ms(0.39, 1.0, 600) is None


def test_a_debt_that_the_arbiter_knows_is_no_finding() -> None:
    """A long kernel, or a neighbour's process that was counted too."""
    assert found_after_ms(1.0, -0.7, 60) is None


def test_work_that_is_claimed_to_be_in_flight_for_ever_is_found() -> None:
    assert found_after_ms(1.0, -5.0, 200) is not None


def test_one_look_that_differs_is_no_finding() -> None:
    audit = TimeAudit()
    said = []
    for look in range(20):
        used = 0 if look < 10 else 5_000 * MS
        said.append(audit.add_look(LIMIT, {7: used}, says(), (1 + look * LOOK_MS) * MS))
    assert LOOKS > 1
    assert not any(said)


@pytest.mark.parametrize("change", ["arbiter", "resize"])
def test_another_arbiter_or_share_starts_a_new_account(change: str) -> None:
    audit = TimeAudit()
    for look in range(60):
        mark = (look // 2, 2) if change == "arbiter" else (1, look // 2)
        assert not audit.add_look(
            LIMIT, {7: look * LOOK_MS * MS}, says(), (1 + look * LOOK_MS) * MS, mark=mark
        )


def test_all_processes_count_together_and_a_reused_pid_is_another_process() -> None:
    audit, texts = TimeAudit(), []
    for look in range(12):
        at = look * LOOK_MS * MS
        used = {7: at // 3, 8: at // 3, 9: at // 3} if look % 2 else {7: at // 3, 8: at // 3, 9: 0}
        texts.append(audit.add_look(LIMIT, used, says(), at + 1))
    assert any("GPU-1" in text for text in texts)


def test_what_is_gone_is_forgotten() -> None:
    audit = TimeAudit()
    audit.add_look(LIMIT, {7: 0}, says(), 1)
    audit.keep_only(())
    assert not audit.add_look(LIMIT, {7: 10**12}, says(), 2)


@dataclass(frozen=True)
class Program:
    """Parts of the card: what it has and what it pays of contested time; and of all time, what is
    contested."""

    has: float
    pays: float = 0.0
    contested: float = 1.0


def unpaid_after_ms(limit: DeviceLimit, program: Program, seconds: float = 60) -> int | None:
    """When a program is found that shares its card with others; what is not contested it has whole,
    unpaid."""
    audit = TimeAudit()
    for at in range(0, int(seconds * 1000), LOOK_MS):
        contested, alone = at * program.contested * MS, at * (1 - program.contested) * MS
        said = says(paid_ns=contested * program.pays, alone_ns=alone)
        if audit.add_look(limit, {7: int(contested * program.has + alone)}, said, (at + 1) * MS):
            return at
    return None


@pytest.mark.parametrize("limit", OTHERS, ids=["burst", "best-effort", "offline"])
@pytest.mark.parametrize(
    ("program", "most_ms"),
    [(Program(0.5), 2800), (Program(0.5, pays=0.25), 4400), (Program(0.5, contested=0.5), 4400)],
    ids=["pays-nothing", "pays-half", "neighbour-with-pauses"],
)
def test_contested_time_that_is_not_paid_is_found(
    limit: DeviceLimit, program: Program, most_ms: int
) -> None:
    after = unpaid_after_ms(limit, program)
    assert after is not None
    assert after <= most_ms


@pytest.mark.parametrize("limit", OTHERS, ids=["burst", "best-effort", "offline"])
@pytest.mark.parametrize(
    "program",
    [
        Program(1.0, contested=0.0),
        Program(0.5, pays=0.46),
        Program(1.0, pays=1.0),
        Program(1.0, 1.0, contested=0.5),
    ],
    ids=["idle-card", "within-the-slack", "pays", "pays-what-is-contested"],
)
def test_what_nobody_wanted_or_what_was_paid_is_never_found(
    limit: DeviceLimit, program: Program
) -> None:
    assert unpaid_after_ms(limit, program, 600) is None


def test_a_kernel_of_seconds_that_is_paid_at_its_end_is_no_finding() -> None:
    """In flight it is believed, 60 s at most; afterwards it is paid, wherever that falls."""
    audit, burst = TimeAudit(), OTHERS[0]
    for look in range(300):
        at, rest = look * LOOK_MS * MS, look * LOOK_MS * MS % (20_000 * MS)
        said = says(paid_ns=at - rest, flight_ns=rest)
        assert not audit.add_look(burst, {7: at}, said, at + 1)


def test_work_in_flight_for_ever_is_found_after_a_minute() -> None:
    audit, burst = TimeAudit(), OTHERS[0]
    found = [
        at
        for at in range(0, 120_000, LOOK_MS)
        if audit.add_look(
            burst, {7: at * MS}, says(flight_ns=min(at * MS, 60_000 * MS)), (at + 1) * MS
        )
    ]
    assert found
    assert found[0] <= 67_000


def test_time_that_a_program_paid_for_and_left_unused_is_no_credit() -> None:
    """Holding the card idle is paid, so that nobody does it; it buys nothing for later."""
    audit, burst, looks = TimeAudit(), OTHERS[0], 50
    found = []
    for look in range(2 * looks):
        said = says(paid_ns=min(look, looks) * LOOK_MS * MS)
        used = max(0, look - looks) * LOOK_MS * MS
        found.append(audit.add_look(burst, {7: used}, said, (1 + look * LOOK_MS) * MS))
    assert any(found[looks : looks + 10])


def test_a_debt_of_work_that_was_not_granted_is_found_within_seconds() -> None:
    """It tells the truth, so the arbiter knows of all of it."""
    audit = TimeAudit()
    found = [
        at
        for at in range(0, 20_000, LOOK_MS)
        if audit.add_look(
            LIMIT, {7: at * MS}, says(owns_ns=-0.7 * at * MS, ungranted_ns=at * MS), (at + 1) * MS
        )
    ]
    assert found
    assert found[0] <= 2800


def test_a_debt_that_was_repaid_is_held_against_nobody() -> None:
    """A little that seemed not to be granted, hour after hour, and then one long kernel."""
    audit, ungranted = TimeAudit(), 0
    for look in range(3000):
        ungranted += 5 * MS
        assert not audit.add_look(
            LIMIT, {7: 0}, says(ungranted_ns=ungranted), (1 + look * LOOK_MS) * MS
        )
    for look in range(3000, 3050):
        used = (look - 2999) * LOOK_MS * MS
        said = says(owns_ns=-0.7 * used, ungranted_ns=ungranted)
        assert not audit.add_look(LIMIT, {7: used}, said, (1 + look * LOOK_MS) * MS)


@pytest.mark.parametrize("limit", OTHERS, ids=["burst", "best-effort", "offline"])
def test_what_was_taken_without_a_lease_is_not_made_good_by_paying(limit: DeviceLimit) -> None:
    audit = TimeAudit()
    found = [
        at
        for at in range(0, 20_000, LOOK_MS)
        if audit.add_look(
            limit,
            {7: at * MS // 2},
            says(paid_ns=at * MS / 2, ungranted_ns=at * MS / 2),
            (at + 1) * MS,
        )
    ]
    assert found
    assert found[0] <= 3200
