"""Members of a gang that are seated together get the seats that a search for each of them finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB
from gpupool.model.claim import ANYWHERE, Shape, SharingKind, TopologyConstraint
from gpupool.scheduling.admission.gang import judge_gang
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.claims import ExpectedDemand, WaitingClass
from gpupool.scheduling.snapshot.columns import Bools
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
)
from gpupool.scheduling.workspace.transaction import (
    PlanningTransaction,
)
from tests.properties.test_scheduling import RULES, TENANTS, crowds, snapshots
from tests.support.gang_builders import gang, group, role
from tests.support.quota_builders import Sizes, cohort, member
from tests.support.scheduling_builders import cards, snapshot

often = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def one_by_one() -> Iterator[None]:
    """Each member looks for its seat by itself."""

    def seat_many(
        self: PlanningTransaction, tenant: str, shape: Shape, count: int, among: Bools | None = None
    ) -> list[TentativePlacement]:
        found = list[TentativePlacement]()
        while len(found) < count and (seated := self.seat_claim(tenant, shape, among)):
            found.append(seated)
        return found

    together, PlanningTransaction.seat_claims = PlanningTransaction.seat_claims, seat_many  # type: ignore[method-assign]
    try:
        yield
    finally:
        PlanningTransaction.seat_claims = together  # type: ignore[method-assign]


shares = st.builds(
    Shape,
    gpu_milli=st.sampled_from([1, 7, 50, 333, 1000]),
    memory_bytes=st.sampled_from([None, 0, GIB // 4, GIB, 10 * GIB]),
    count=st.sampled_from([1, 1, 1, 1, 2]),
    model=st.sampled_from([None, None, None, "A100"]),
    sharing=st.sampled_from([SharingKind.FIXED, SharingKind.FIXED, SharingKind.BEST_EFFORT]),
    cpu_milli=st.sampled_from([0, 0, 100, 4000]),
    host_bytes=st.sampled_from([0, 0, GIB]),
)
nearness = st.sampled_from(
    [ANYWHERE, ANYWHERE, TopologyConstraint("node"), TopologyConstraint(None, "node")]
)


@st.composite
def large(draw: st.DrawFn, number: int) -> WaitingClass:
    """A gang of one or two roles of many members each."""
    parts = list[object]()
    for place in range(draw(st.integers(1, 2))):
        minimum = draw(st.integers(0, 60))
        one = role(
            f"r{place}",
            draw(shares),
            minimum,
            max(1, minimum + draw(st.sampled_from([0, 0, 3, 40]))),
        )
        parts.append(group(f"p{place}", one, within=draw(nearness)) if draw(st.booleans()) else one)
    found = gang(
        f"large{number}", *parts, within=draw(nearness), tenant=draw(st.sampled_from(TENANTS))
    )  # type: ignore[arg-type]
    return replace(found, priority=draw(st.sampled_from([0, 100])), preemptible=draw(st.booleans()))


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """Large gangs before a pool with jobs that may leave; perhaps it knows of its hosts, and of
    what is expected."""
    before = draw(st.one_of(snapshots(), crowds()))
    found = tuple(draw(large(number)) for number in range(draw(st.integers(1, 3))))
    if draw(st.booleans()):
        expected = ExpectedDemand((Shape(300, GIB), Shape(1000, None)), (3.0, 1.0))
        before = replace(before, expected=expected)
    return replace(before, waiting=(*found, *before.waiting))


@often
@given(crowded(), st.sampled_from([RULES, PreemptionRules(enabled=False)]))
def test_a_plan_is_that_of_a_search_for_each_member(
    before: Snapshot, rules: PreemptionRules
) -> None:
    together = cycle(before, 10**12, rules=rules)
    with one_by_one():
        assert replace(cycle(before, 10**12, rules=rules), effort=together.effort) == together


@often
@given(
    large(0),
    st.sampled_from(["2x4xL40S", "1x2xT4+3x1xA100-40G", "3x2xA100-80G"]),
    st.integers(0, 2),
)
def test_a_gang_is_refused_as_by_a_search_for_each_member(
    wanted: WaitingClass, pool: str, numa: int
) -> None:
    made = cards(pool, hosts=(64_000, 64 * GIB) if numa else None, numa=2 if numa == 2 else 0)
    assert wanted.gang is not None
    view = snapshot(pool, wanted).tenants[wanted.tenant]
    together = judge_gang(wanted.gang, view, made, tenant_name=wanted.tenant)
    with one_by_one():
        assert judge_gang(wanted.gang, view, made, tenant_name=wanted.tenant) == together


@often
@given(
    st.builds(Shape, st.sampled_from([1, 7, 50]), st.sampled_from([None, GIB // 8, GIB // 8, GIB])),
    st.integers(1, 10),
    st.sampled_from([(0.1, 0), (0.5, 0), (0.3, 0.25), (0.3, 0.3, 0), (0, 0.4)]),
    st.sampled_from([None, None, None, (3, 0), (3, 4)]),
    st.sampled_from([{}, {}, {}, {"H200": (0.2, 0)}]),
    st.booleans(),
)
def test_quotas_of_every_kind_stop_the_same_member(
    want: Shape, minimum: int, gpu: Sizes, memory: Sizes, model: dict[str, Sizes], preemptible: bool
) -> None:
    asked = replace(gang("g", role("worker", want, minimum, 400)), preemptible=preemptible)
    views = {
        "nlp": member("lab", gpu, memory_gib=memory, **model),
        "vision": member("lab", (1, None, 0)),
    }
    before = replace(
        snapshot("2x2xH200+1x2xT4", asked, tenants=views), cohorts={"lab": cohort((2, 1))}
    )
    together = cycle(before, 0)
    with one_by_one():
        assert replace(cycle(before, 0), effort=together.effort) == together
