"""No honest program is found by the audit of GPU time, whatever runs beside it: random mixes on
virtual time."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.audited import found_in
from tests.support.compute import LONG_WORK, WORK, Tenant, simulate
from tests.support.uneven_loads import random_load

FEW, MANY = 60, 1_000
#: Seeds of runs in which processes and the arbiter end; the last three are long without an arbiter.
ROUGH = (*range(7), 12, 23, 33)
SECONDS = 12.0
SHARINGS = ("fixed", "burst", "burst", "best-effort")


def found(
    simulation: Path,
    tenants: list[Tenant],
    orders: Sequence[str] = (),
    away_ms: Sequence[tuple[int, int]] = (),
) -> list[tuple[str, str]]:
    outcome = simulate(simulation, tenants, SECONDS, orders)
    return [
        (tenant.line(), text)
        for tenant in tenants
        for text in found_in(outcome, tenant, away_ms=away_ms)
    ]


def assert_none_found(simulation: Path, mixes: list[list[Tenant]]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda mix: found(simulation, mix), mixes))
    wrong = [(mix, texts) for mix, texts in zip(mixes, said, strict=True) if texts]
    assert not wrong, f"{len(wrong)} of {len(mixes)}, the first: {wrong[0]}"


def random_mix(chance: random.Random, sharings: Sequence[str] = SHARINGS) -> list[Tenant]:
    """Two to four honest programs of any kind that share one card, none promised more than is left
    of it."""
    left, tenants = 900, []
    for name in "abcd"[: chance.randint(2, 4)]:
        sharing = chance.choice(sharings)
        milli = (
            0 if sharing in ("best-effort", "offline") else chance.randint(50, max(50, left // 2))
        )
        left -= milli
        start = f"start_ms={chance.randint(0, 4000)} priority={chance.choice((0, 0, 1))}"
        tenant = random_load(chance, 3).tenant(name, milli / 1000)
        tenants.append(replace(tenant, sharing=sharing, options=f"{tenant.options} {start}"))
    return tenants


@pytest.mark.sampled(4)
@pytest.mark.parametrize("work", [*WORK.values(), *LONG_WORK.values(), "k2000ms", "v,k2000ms"])
def test_a_program_beside_one_that_always_wants_the_card_is_not_found(
    simulation: Path, work: str
) -> None:
    lengths = "lengths=20us/3ms"
    mixes = [
        [Tenant("a", share, sharing, work, lengths), Tenant("b", 0.3, other, beside, lengths)]
        for sharing, share in (("burst", 0.3), ("best-effort", 0.0), ("offline", 0.0))
        for other in ("fixed", "burst")
        # An offline share gives way to any neighbour alike, so one kind of them is enough.
        for beside in (("k300ms",) if sharing == "offline" else ("k20us", "k20us,s", "k300ms"))
    ]
    assert_none_found(simulation, mixes)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(3))
def test_random_mixes_of_honest_programs_are_not_found(simulation: Path, part: int) -> None:
    seeds = range(part, FEW, 3)
    assert_none_found(simulation, [random_mix(random.Random(seed)) for seed in seeds])


def test_random_mixes_with_offline_shares_are_not_found(simulation: Path) -> None:
    sharings = (*SHARINGS, "offline", "offline")
    assert_none_found(simulation, [random_mix(random.Random(seed), sharings) for seed in range(20)])


def rough_orders(
    chance: random.Random, tenants: list[Tenant]
) -> tuple[list[str], list[tuple[int, int]]]:
    """Processes that are stopped and killed, and when the arbiter is away for a while."""
    away = chance.randint(2000, 5000)
    back = away + chance.randint(100, 3000)
    orders = [(away, "arbiter off x"), (back, "arbiter on x")]
    for _ in range(chance.randint(1, 6)):
        stopped = chance.choice(tenants).name
        orders.append(
            (chance.randint(500, 11_000), f"stop {stopped} {chance.choice((50, 150, 300, 1500))}")
        )
    orders.append((chance.randint(3000, 9000), f"kill {chance.choice(tenants).name}"))
    return [f"at {at} {words}" for at, words in sorted(orders)], [(away, back)]


def test_honest_programs_that_are_stopped_killed_or_without_an_arbiter_are_not_found(
    simulation: Path,
) -> None:
    for seed in ROUGH:
        chance = random.Random(seed)
        mix = random_mix(chance)
        assert not found(simulation, mix, *rough_orders(chance, mix)), seed


@pytest.mark.slow
def test_thousands_of_random_mixes_are_not_found(simulation: Path) -> None:
    assert_none_found(
        simulation, [random_mix(random.Random(seed)) for seed in range(FEW, FEW + MANY)]
    )


TRUTHFUL = {
    "alone": ("fixed", 0.3, None),
    "fixed": ("fixed", 0.3, "k20us"),
    "burst": ("burst", 0.3, "k20us"),
    "best-effort": ("best-effort", 0.0, "k20us"),
}
"""Sharing, share, and what runs beside it."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("where", TRUTHFUL)
@pytest.mark.parametrize("work", ["k500us*20,s", "g3ms", "v,s"])
def test_truthful_work_without_a_grant_is_found_and_its_neighbour_is_not(
    simulation: Path, work: str, where: str
) -> None:
    """A program that believes in a grants page of its own, and tells the truth of what it uses."""
    sharing, share, beside = TRUTHFUL[where]
    tenants = [Tenant("a", share, sharing, work, "own_grants=1 lengths=20us/3ms draw=any")]
    tenants += [Tenant("b", 0.3, "burst", beside)] if beside else []
    outcome = simulate(simulation, tenants, SECONDS)
    if outcome.share("a") > share + 0.1 or sharing != "fixed":
        assert found_in(outcome, tenants[0])
    assert not any(found_in(outcome, tenant) for tenant in tenants[1:])
