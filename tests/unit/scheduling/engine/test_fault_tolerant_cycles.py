"""A policy that raises is replaced, at whatever call it does; placing goes on and the host is
told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.scheduling.engine import fault_tolerant_cycles
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.engine.fault_tolerant_cycles import FaultTolerantCycles
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.scoring.binpack import BinpackRater
from gpupool.scheduling.scoring.guarded_policy import PolicyFault
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import apply, cards, shape, snapshot, waiting, whole

CALLS = ("start", "epoch", "rate", "settle", "choose", "took", "gave")


class Broken(BinpackRater):
    """Raises at its `after`-th call of `call`."""

    NEEDS_NORMALIZATION = True
    NODE_WORD = CARD_WORD = "brokenest"

    def __init__(self, free: FreeCapacity, call: str, after: int) -> None:
        super().__init__(free)
        self._call = call
        self._left = after

    def _count(self, call: str) -> None:
        self._left -= call == self._call
        if call == self._call and self._left <= 0:
            raise FloatingPointError("learnt nonsense")

    @property
    def epoch(self) -> int:  # type: ignore[override]
        self._count("epoch")
        return 7

    def rate_nodes(self, *given: object) -> object:  # type: ignore[override]
        self._count("rate")
        return super().rate_nodes(*given)  # type: ignore[arg-type]

    def normalize_scores(self, *given: object) -> object:  # type: ignore[override]
        self._count("settle")
        return super().normalize_scores(*given)  # type: ignore[arg-type]

    def order_cards(self, *given: object) -> object:  # type: ignore[override]
        self._count("choose")
        return super().order_cards(*given)  # type: ignore[arg-type]

    def on_take(self, *given: object) -> None:  # type: ignore[override]
        self._count("took")

    def on_release(self, *given: object) -> None:  # type: ignore[override]
        self._count("gave")


class BrokenPolicy:
    NAME = "broken"

    def __init__(self, call: str, after: int) -> None:
        self._call = call
        self._after = after

    def start_rater(self, free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
        if self._call == "start":
            raise FloatingPointError("learnt nonsense")
        return Broken(free, self._call, self._after)  # type: ignore[return-value]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    def installed(call: str, after: int) -> None:
        known = {**registry.POLICIES, "broken": BrokenPolicy(call, after)}
        monkeypatch.setattr(registry, "POLICIES", known)

    return installed


def pool() -> Snapshot:
    singles = [waiting(f"s{n}", want=shape(300, GIB), at=n) for n in range(4)]
    return snapshot("2x4xT4", *singles, waiting("w", want=whole(2), at=9), policy="broken")


def plan(cycles: FaultTolerantCycles, now: Snapshot) -> Plan:
    return cycles.make_plan(now, 0, 64, DEFAULT_PREEMPTION_RULES)


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("call", CALLS)
def test_a_policy_that_raises_is_replaced_and_everything_is_placed(
    call: str, after: int, install: Callable[[str, int], None]
) -> None:
    install(call, after)
    heard: list[PolicyFault] = []
    cycles = FaultTolerantCycles(heard.append)
    now = pool()
    found = plan(cycles, now)
    assert sorted(one.job for one in found.placements) == ["s0", "s1", "s2", "s3", "w"]
    second = apply(now, found)
    rest = replace(second, waiting=(waiting("later", want=whole(), at=20),))
    assert [one.job for one in plan(cycles, rest).placements] == ["later"]
    assert cycles.fault is not None
    assert cycles.fault.policy == "broken"
    assert cycles.fault.sentence == "placement policy broken failed; binpack places in its stead"
    assert (
        "FloatingPointError: learnt nonsense (test_fault_tolerant_cycles.py:" in cycles.fault.error
    )
    assert heard == [cycles.fault], "one exception is heard of once, however many plans it lasts"


def test_the_policy_is_begun_anew_when_what_is_expected_changes(
    install: Callable[[str, int], None],
) -> None:
    install("rate", 1)
    heard: list[PolicyFault] = []
    cycles = FaultTolerantCycles(heard.append)
    plan(cycles, pool())
    install("rate", 10**6)
    again = replace(pool(), expected=ExpectedDemand((shape(300, GIB),), (5,)))
    plan(cycles, again)
    assert cycles.fault is None
    assert len(heard) == 1


def test_a_replaced_policy_decides_as_binpack_does(install: Callable[[str, int], None]) -> None:
    install("start", 1)
    fell, plain = plan(FaultTolerantCycles(), pool()), cycle(replace(pool(), policy="binpack"), 0)
    assert [(one.job, one.seats) for one in fell.placements] == [
        (one.job, one.seats) for one in plain.placements
    ]


def test_a_simulation_sees_the_exception_itself(install: Callable[[str, int], None]) -> None:
    install("rate", 1)
    with pytest.raises(FloatingPointError):
        cycle(pool(), 0)


def test_an_exception_outside_the_policies_costs_reasons_and_evictions_but_no_placement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole_cycle = fault_tolerant_cycles.cycle

    def broken(now: Snapshot, *given: object, said: bool = True, **more: object) -> Plan:
        if said:
            raise KeyError("a sentence")
        return whole_cycle(now, *given, said=said, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(fault_tolerant_cycles, "cycle", broken)
    cycles = FaultTolerantCycles()
    now = replace(pool(), policy="default")
    found = plan(cycles, now)
    assert (len(found.placements), found.rejections) == (5, {})
    assert cycles.fault is not None
    assert (cycles.fault.policy, cycles.fault.sentence.partition(";")[0]) == (
        "cycle",
        "planning failed",
    )
    monkeypatch.setattr(fault_tolerant_cycles, "cycle", whole_cycle)
    plan(cycles, now)
    assert cycles.fault is None


def test_a_pool_of_plain_cards_has_no_fault() -> None:
    cycles = FaultTolerantCycles()
    plan(cycles, snapshot(cards("1x2xT4"), waiting("a", want=whole())))
    assert cycles.fault is None
