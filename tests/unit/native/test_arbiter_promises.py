"""The sums of a promise on the grants page, with the real arbiter and a real fenced program."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from tests.support.fenced_card import Arbiter, Card, Share, finish, running

KERNEL = "step_us_50"


def read_sums(share: Share) -> regions.PromiseSums:
    uuid = share.limits.devices[0].uuid
    return regions.read_promises(share.base / regions.GRANTS_FILE, [uuid])[uuid]


def run_load(load: Path, share: Share, card: Card) -> int:
    """Let it work for a moment; returns all GPU nanoseconds that the share was measured to use."""
    with running(load, share, card, KERNEL, 0.3, 0, 0, "kernel") as process:
        finish(process)
    (total,) = share.usage().sum_totals().values()
    return int(total.gpu_ns)


@pytest.mark.parametrize("sharing", ["offline", "best-effort"])
def test_all_use_of_a_share_without_a_promise_is_borrowed(
    load: Path, card: Card, sharing: str
) -> None:
    share = card.share("a", 0, sharing)
    arbiter = Arbiter()
    arbiter.add(share)
    used = run_load(load, share, card)
    arbiter.ask("status")
    assert used > 0
    assert read_sums(share) == regions.PromiseSums(pytest.approx(used, rel=0.02), 0)
    arbiter.close()


def test_the_sums_go_on_after_another_start_of_the_arbiter(load: Path, card: Card) -> None:
    share = card.share("a", 0, "offline")
    before = 0
    for _ in range(2):
        arbiter = Arbiter()
        arbiter.add(share)
        used = run_load(load, share, card)
        arbiter.ask("status")
        after = read_sums(share).borrowed_ns
        assert after == pytest.approx(used, rel=0.02)
        assert after > before
        before = after
        arbiter.process.kill()
        arbiter.process.communicate()


def test_a_card_that_no_arbiter_divided_has_no_sums(card: Card) -> None:
    share = card.share("a", 300)
    uuid = share.limits.devices[0].uuid
    assert regions.read_promises(share.base / regions.GRANTS_FILE, [uuid]) == {}
