"""The audit of GPU time: a card's own figures against what the arbiter granted and knows."""

from __future__ import annotations

import pytest

from gpupool.agent.time_audit import LOOKS, TimeAudit
from gpupool.mechanisms.regions import DeviceLimit

MS = 10**6
LOOK_MS = 400
SHARE = 0.3
LIMIT = DeviceLimit("GPU-1", 1, 1, gpu_milli=300)


def found_after_ms(part: float, owned: float, seconds: float = 30, mark: object = None) -> int | None:
    """When a program is found that has `part` of the card and whose arbiter's balance moves by `owned` of the time."""
    audit, used, owns = TimeAudit(), 0.0, 0.0
    for at in range(0, int(seconds * 1000), LOOK_MS):
        if audit.look("al-1", LIMIT, {7: int(used)}, int(owns), (at + 1) * MS, mark=mark):
            return at
        used += part * LOOK_MS * MS
        owns = min(owns + owned * LOOK_MS * MS, 40 * MS)
    return None


@pytest.mark.parametrize(
    ("part", "most_ms"),
    [(0.934, 2400), (0.889, 2400), (0.736, 3200), (0.544, 5600)],
    ids=["ptr", "mount", "pin", "half"],
)
def test_time_that_the_arbiter_does_not_know_of_is_found_within_seconds(part: float, most_ms: int) -> None:
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
        said.append(audit.look("al-1", LIMIT, {7: used}, 0, (1 + look * LOOK_MS) * MS))
    assert LOOKS > 1
    assert not any(said)


@pytest.mark.parametrize("change", ["arbiter", "resize"])
def test_another_arbiter_or_share_starts_a_new_account(change: str) -> None:
    audit = TimeAudit()
    for look in range(60):
        mark = (look // 2, 2) if change == "arbiter" else (1, look // 2)
        assert not audit.look("al-1", LIMIT, {7: look * LOOK_MS * MS}, 0, (1 + look * LOOK_MS) * MS, mark=mark)


def test_all_processes_count_together_and_a_reused_pid_is_another_process() -> None:
    audit, texts = TimeAudit(), []
    for look in range(12):
        at = look * LOOK_MS * MS
        used = {7: at // 3, 8: at // 3, 9: at // 3} if look % 2 else {7: at // 3, 8: at // 3, 9: 0}
        texts.append(audit.look("al-1", LIMIT, used, 0, at + 1))
    assert any("GPU-1" in text for text in texts)


def test_what_is_gone_is_forgotten() -> None:
    audit = TimeAudit()
    audit.look("al-1", LIMIT, {7: 0}, 0, 1)
    audit.forget(())
    assert not audit.look("al-1", LIMIT, {7: 10**12}, 0, 2)
