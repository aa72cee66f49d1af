"""The check of memory limits, on logs whose figures are known."""

from __future__ import annotations

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.base.units import MIB
from gpupool.verification.findings import PromiseFinding
from gpupool.verification.memory_check import check_memory
from tests.support.verification_pool import (
    SHARE_BYTES,
    Line,
    ScriptedPool,
    build_run,
    get_findings,
    stretches,
)

FREE = SHARE_BYTES - 500 * MIB


def check(
    given: int = FREE, uuid: str = "GPU-a", seen: int = SHARE_BYTES, near: int = SHARE_BYTES
) -> dict[str, PromiseFinding]:
    card: Line = {"kind": "card", "uuid": uuid, "total_bytes": seen, "free_bytes": FREE}
    logs = {
        "near": [{"kind": "memory", "total_bytes": near}, *stretches(0.2, 0, 4000)],
        "over": [card, {"kind": "refused", "given_bytes": given}],
    }
    run = build_run(ScriptedPool(logs))
    check_memory(run)
    return get_findings(run)


def list_broken(found: dict[str, PromiseFinding]) -> list[str]:
    return [key for key, one in found.items() if not one.kept]


@pytest.mark.parametrize("given", [FREE - 4 * MIB, FREE, SHARE_BYTES])
def test_memory_given_up_to_the_share_is_kept(given: int) -> None:
    assert list_broken(check(given)) == []


@pytest.mark.parametrize("given", [FREE - 4 * MIB - 1, SHARE_BYTES + 1])
def test_memory_given_beyond_or_below_the_share_is_broken(given: int) -> None:
    assert list_broken(check(given)) == ["limit-held"]


def test_memory_of_another_card_or_the_whole_card_is_broken() -> None:
    assert list_broken(check(uuid="GPU-b")) == ["card-seen"]
    assert list_broken(check(seen=SHARE_BYTES * 8)) == ["limit-seen"]


def test_memory_of_a_neighbour_that_changed_is_broken() -> None:
    assert list_broken(check(near=SHARE_BYTES - MIB)) == ["neighbour-memory"]


def test_memory_check_of_a_job_that_is_never_refused_says_so() -> None:
    run = build_run(ScriptedPool({"near": stretches(0.2, 0, 1000)}))
    with pytest.raises(ServiceUnavailable, match="never came to being refused"):
        check_memory(run)
