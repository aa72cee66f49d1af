"""A policy that raises is replaced, at whatever call it does; placing goes on and the host is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.model.partition import Placement as Place
from gpupool.scheduling import careful, policies
from gpupool.scheduling.board import Board
from gpupool.scheduling.careful import CarefulCycles
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.free import Free
from gpupool.scheduling.guarded import PolicyFault
from gpupool.scheduling.policy import Rater
from gpupool.scheduling.score_binpack import Binpack
from gpupool.scheduling.score_partitions import Cuts
from gpupool.scheduling.snapshot import Expected, Plan, Snapshot
from gpupool.scheduling.victims import GENTLE
from tests.support.partition_builders import asked
from tests.support.partition_builders import pool as cut_pool
from tests.support.scheduling_builders import apply, cards, shape, snapshot, waiting, whole

CALLS = ("start", "epoch", "rate", "settle", "choose", "took", "gave")


class Broken(Binpack):
    """Raises at its `after`-th call of `call`."""

    SCALED = True
    NODE = CARD = "brokenest"

    def __init__(self, free: Free, call: str, after: int) -> None:
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

    def rate(self, *given: object) -> object:  # type: ignore[override]
        self._count("rate")
        return super().rate(*given)  # type: ignore[arg-type]

    def settle(self, *given: object) -> object:  # type: ignore[override]
        self._count("settle")
        return super().settle(*given)  # type: ignore[arg-type]

    def choose(self, *given: object) -> object:  # type: ignore[override]
        self._count("choose")
        return super().choose(*given)  # type: ignore[arg-type]

    def took(self, *given: object) -> None:  # type: ignore[override]
        self._count("took")

    def gave(self, *given: object) -> None:  # type: ignore[override]
        self._count("gave")


class BrokenPolicy:
    NAME = "broken"

    def __init__(self, call: str, after: int) -> None:
        self._call = call
        self._after = after

    def start(self, free: Free, expected: Expected, seed: int) -> Rater:
        if self._call == "start":
            raise FloatingPointError("learnt nonsense")
        return Broken(free, self._call, self._after)  # type: ignore[return-value]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    def installed(call: str, after: int) -> None:
        known = {**policies.POLICIES, "broken": BrokenPolicy(call, after)}
        monkeypatch.setattr(policies, "POLICIES", known)

    return installed


def pool() -> Snapshot:
    singles = [waiting(f"s{n}", want=shape(300, GIB), at=n) for n in range(4)]
    return snapshot("2x4xT4", *singles, waiting("w", want=whole(2), at=9), policy="broken")


def plan(cycles: CarefulCycles, now: Snapshot) -> Plan:
    return cycles.plan(now, 0, 64, GENTLE)


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("call", CALLS)
def test_a_policy_that_raises_is_replaced_and_everything_is_placed(
    call: str, after: int, install: Callable[[str, int], None]
) -> None:
    install(call, after)
    heard: list[PolicyFault] = []
    cycles = CarefulCycles(heard.append)
    now = pool()
    found = plan(cycles, now)
    assert sorted(one.job for one in found.placements) == ["s0", "s1", "s2", "s3", "w"]
    second = apply(now, found)
    rest = replace(second, waiting=(waiting("later", want=whole(), at=20),))
    assert [one.job for one in plan(cycles, rest).placements] == ["later"]
    assert cycles.fault is not None
    assert cycles.fault.policy == "broken"
    assert cycles.fault.sentence == "placement policy broken failed; binpack places in its stead"
    assert "FloatingPointError: learnt nonsense (test_careful.py:" in cycles.fault.error
    assert heard == [cycles.fault], "one exception is heard of once, however many plans it lasts"


def test_the_policy_is_begun_anew_when_what_is_expected_changes(install: Callable[[str, int], None]) -> None:
    install("rate", 1)
    heard: list[PolicyFault] = []
    cycles = CarefulCycles(heard.append)
    plan(cycles, pool())
    install("rate", 10**6)
    again = replace(pool(), expected=Expected((shape(300, GIB),), (5,)))
    plan(cycles, again)
    assert cycles.fault is None
    assert len(heard) == 1


def test_a_replaced_policy_decides_as_binpack_does(install: Callable[[str, int], None]) -> None:
    install("start", 1)
    fell, plain = plan(CarefulCycles(), pool()), cycle(replace(pool(), policy="binpack"), 0)
    assert [(one.job, one.seats) for one in fell.placements] == [(one.job, one.seats) for one in plain.placements]


def test_a_simulation_sees_the_exception_itself(install: Callable[[str, int], None]) -> None:
    install("rate", 1)
    with pytest.raises(FloatingPointError):
        cycle(pool(), 0)


def test_an_exception_outside_the_policies_costs_reasons_and_evictions_but_no_placement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole_cycle = careful.cycle

    def broken(now: Snapshot, *given: object, said: bool = True, **more: object) -> Plan:
        if said:
            raise KeyError("a sentence")
        return whole_cycle(now, *given, said=said, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(careful, "cycle", broken)
    cycles = CarefulCycles()
    now = replace(pool(), policy="default")
    found = plan(cycles, now)
    assert (len(found.placements), found.rejections) == (5, {})
    assert cycles.fault is not None
    assert (cycles.fault.policy, cycles.fault.sentence.partition(";")[0]) == ("cycle", "planning failed")
    monkeypatch.setattr(careful, "cycle", whole_cycle)
    plan(cycles, now)
    assert cycles.fault is None


def test_partitions_too_are_cut_after_their_rule_has_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    places = Cuts.places
    calls: list[str] = []

    def once_broken(self: Cuts, profile: str, rows: object) -> tuple[Place, ...]:
        calls.append(profile)
        if len(calls) == 1:
            raise ZeroDivisionError("no profile is wanted")
        return places(self, profile, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(Cuts, "places", once_broken)
    now = snapshot(cut_pool("1xH200:mig"), asked("1g.18gb", "a"))
    board = Board(now, guard=True)
    assert [one.job for one in cycle(now, 0, board=board).placements] == ["a"]
    assert board.fault is not None
    assert board.fault.policy == "partitions"


def test_a_pool_of_plain_cards_has_no_fault() -> None:
    cycles = CarefulCycles()
    plan(cycles, snapshot(cards("1x2xT4"), waiting("a", want=whole())))
    assert cycles.fault is None
