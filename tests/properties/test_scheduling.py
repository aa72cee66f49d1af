"""What holds for every plan, whatever the pool, the tenants and the queue."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import (
    ANYWHERE,
    CardSelector,
    RejectionReason,
    Shape,
    SharingKind,
    TopologyConstraint,
)
from gpupool.model.gang import GangGroup, GangRole
from gpupool.model.quota import Quota, QuotaLimit, ResourceAmount
from gpupool.scheduling.admission.claim import judge_claim
from gpupool.scheduling.engine.cycle import cycle, cycle_with_state
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.filtering.feasibility import is_model_match, list_model_vendors
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES, PreemptionRules
from gpupool.scheduling.quota.queue_order import compute_own_headroom
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable, TopologyLevel
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import gang, group, occupied, role, running
from tests.support.scheduling_builders import apply, cards, snapshot

ZONES = ("a", "b")
TENANTS = ("nlp", "vision", "audio")
often = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
fewer = settings(often, max_examples=40)  # of what plans several times or is costly to make

models = st.sampled_from(["T4", "A100-40G", "A100-80G", "H200"])
nodes = st.lists(st.lists(models, min_size=1, max_size=4), min_size=1, max_size=3)
used = st.sampled_from(
    [(0, 0), (0, 0), (0, 5 * GIB), (250, GIB), (250, 12 * GIB), (500, 6 * GIB), (1000, 15 * GIB)]
)
status = st.sampled_from([CardStatus.OPEN] * 12 + list(CardStatus))


@st.composite
def pools(draw: st.DrawFn) -> CardTable:
    """Up to four nodes of up to four cards of any models, partly used, some not open, some nodes
    labelled."""
    layout = draw(nodes)
    names = [f"node-{n + 1}/{place}" for n, node in enumerate(layout) for place in range(len(node))]
    pool = "+".join("mixed:" + ",".join(node) for node in layout)
    labels = {f"node-{n + 1}": {"zone": draw(st.sampled_from(ZONES))} for n in range(len(layout))}
    taken = {name: draw(used) for name in names}
    return cards(pool, used=taken, status={name: draw(status) for name in names}, labels=labels)


shapes = st.builds(
    Shape,
    gpu_milli=st.sampled_from([100, 333, 500, 750, 1000, 1000]),
    memory_bytes=st.sampled_from([None, None, GIB, 4 * GIB, 10 * GIB, 30 * GIB, 200 * GIB]),
    count=st.sampled_from([1, 1, 1, 2, 2, 3, 5]),
    model=st.sampled_from([None] * 6 + ["A100", "t4", "H2000"]),
    labels=st.sampled_from([()] * 6 + [(("zone", "a"),), (("zone", "c"),)]),
    sharing=st.sampled_from(SharingKind),
)
limit = st.sampled_from([None, None, None, 300, 1000, 2500])
memory_limit = st.sampled_from([None, None, 10 * GIB, 30 * GIB, 60 * GIB, 200 * GIB])
views = st.builds(
    TenantView,
    st.builds(
        Quota,
        limit,
        st.sampled_from([0, 500, None]),
        memory_limit,
        st.sampled_from([0, 8 * GIB, None]),
    ),
    st.builds(ResourceAmount, st.sampled_from([0, 0, 300, 1200]), st.sampled_from([0, 0, 9 * GIB])),
)
policies = st.sampled_from(["default", "binpack", "spread"])


@st.composite
def queues(draw: st.DrawFn) -> tuple[WaitingClass, ...]:
    """Classes with one to four heads and perhaps more jobs behind them; every key and job once."""
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from(TENANTS), st.sampled_from([0, 100]), shapes),
            min_size=1,
            max_size=4,
        )
    )
    return tuple(_class(draw, number, *key) for number, key in enumerate(dict.fromkeys(keys)))


def _class(draw: st.DrawFn, number: int, tenant: str, priority: int, shape: Shape) -> WaitingClass:
    ages = tuple(sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))))
    heads = tuple(f"j{number}-{place}" for place in range(len(ages)))
    more = draw(st.sampled_from([0, 0, 100]))
    return WaitingClass(
        tenant,
        priority,
        shape,
        heads,
        len(heads) + more,
        ages[0],
        draw(st.sampled_from([ages, ()])),
    )


@st.composite
def gangs(draw: st.DrawFn, number: int) -> WaitingClass:
    """One or two roles, perhaps in a group of their own, of which perhaps some members run
    already."""
    parts = []
    for place in range(draw(st.integers(1, 2))):
        minimum = draw(st.integers(0, 3))
        one = role(f"r{place}", draw(shapes), minimum, max(1, minimum + draw(st.integers(0, 2))))
        near = draw(
            st.sampled_from(
                [
                    ANYWHERE,
                    TopologyConstraint("rack"),
                    TopologyConstraint(None, "rack"),
                    TopologyConstraint("node"),
                ]
            )
        )
        parts.append(group(f"p{place}", one, within=near) if draw(st.booleans()) else one)
    near = draw(
        st.sampled_from([ANYWHERE, TopologyConstraint("rack"), TopologyConstraint(None, "rack")])
    )
    found = gang(
        f"g{number}",
        *parts,
        within=near,
        tenant=draw(st.sampled_from(TENANTS)),
        at=draw(st.integers(0, 9)),
    )
    return replace(found, priority=draw(st.sampled_from([0, 100])))


@st.composite
def mixtures(draw: st.DrawFn) -> Snapshot:
    """A pool in racks with single claims and gangs that wait."""
    before = draw(snapshots())
    racks = np.array(
        [draw(st.sampled_from([-1, 0, 0, 1])) for _ in before.cards.nodes], dtype=np.int64
    )
    pool = replace(before.cards, levels=(TopologyLevel("rack", ("rack-0", "rack-1"), racks),))
    more = tuple(draw(gangs(number)) for number in range(draw(st.integers(1, 3))))
    return replace(before, cards=pool, waiting=(*before.waiting, *more))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    return Snapshot(
        7, draw(pools()), {name: draw(views) for name in TENANTS}, draw(queues()), draw(policies)
    )


def rows_of(pool: CardTable, plan: Plan) -> list[list[int]]:
    return [
        [pool.uuids.index(seat.device) for seat in placement.seats] for placement in plan.placements
    ]


def shape_of(before: Snapshot, job: str) -> tuple[WaitingClass, Shape]:
    (found,) = (waiting for waiting in before.waiting if job in waiting.job_ids)
    return found, found.shape


@often
@given(snapshots())
def test_no_card_is_overcommitted_in_compute_or_memory(before: Snapshot) -> None:
    after = apply(before, cycle(before, 0)).cards
    taken = (after.free_milli != before.cards.free_milli) | (
        after.free_bytes != before.cards.free_bytes
    )
    assert (after.free_milli[taken] >= 0).all()
    assert (after.free_bytes[taken] >= 0).all()


@often
@given(snapshots())
def test_no_tenant_is_taken_over_its_maximum(before: Snapshot) -> None:
    after = apply(before, cycle(before, 0)).tenants
    for name, view in before.tenants.items():
        more = after[name].held - view.held
        assert compute_own_headroom(view).covers(more)
        assert (
            view.quota.allows_total(after[name].held)
            or more.gpu_milli == 0
            or more.memory_bytes == 0
        )


vendor_words = st.sampled_from(["nvidia", "amd"])
vendor_limits = st.dictionaries(
    st.sampled_from(["gpu:NVIDIA", "gpu:AMD"]), st.sampled_from([0, 500, 1500]), min_size=1
)


@st.composite
def mixed_vendors(draw: st.DrawFn) -> Snapshot:
    """Cards of two vendors, tenants with limits of one or both, claims to one vendor or to any."""
    before = draw(snapshots())
    pool = replace(before.cards, vendors=tuple(draw(vendor_words) for _ in before.cards.models))
    asked = tuple(
        _to_vendor(one, draw(st.one_of(st.none(), vendor_words))) for one in before.waiting
    )
    tenants = {
        name: replace(view, quota=_of_vendors(draw(vendor_limits)))
        for name, view in before.tenants.items()
    }
    return replace(before, cards=pool, waiting=asked, tenants=tenants)


def _to_vendor(one: WaitingClass, vendor: str | None) -> WaitingClass:
    return replace(one, shape=replace(one.shape, selector=CardSelector(vendor=vendor)))


def _of_vendors(nominal: Mapping[str, int]) -> Quota:
    return Quota.from_limits({name: QuotaLimit(milli, 0) for name, milli in nominal.items()})


@often
@given(mixed_vendors())
def test_no_tenant_is_taken_over_its_part_of_a_vendor(before: Snapshot) -> None:
    plan = cycle(before, 0)
    taken: Counter[tuple[str, str]] = Counter()
    for placement, rows in zip(plan.placements, rows_of(before.cards, plan), strict=True):
        waiting, shape = shape_of(before, placement.job)
        for row, seat in zip(rows, placement.seats, strict=True):
            vendor = list_model_vendors(before.cards)[before.cards.model[row]]
            assert shape.selector.vendor in (None, vendor)
            taken[waiting.tenant, f"gpu:{vendor.upper()}"] += seat.gpu_milli
    for (tenant, resource), milli in taken.items():
        limit = before.tenants[tenant].quota.limits.get(resource)
        assert limit is None or milli <= (limit.maximum or 0)


@often
@given(snapshots())
def test_the_seats_of_a_claim_are_distinct_cards_of_one_node_and_as_many_as_were_asked_for(
    before: Snapshot,
) -> None:
    plan = cycle(before, 0)
    for placement, rows in zip(plan.placements, rows_of(before.cards, plan), strict=True):
        _, shape = shape_of(before, placement.job)
        assert len(set(rows)) == len(rows) == shape.count
        assert {before.cards.nodes[before.cards.node[row]] for row in rows} == {placement.node}


@often
@given(snapshots())
def test_a_seat_is_on_an_open_card_of_the_asked_kind_and_holds_what_the_shape_says(
    before: Snapshot,
) -> None:
    pool, plan = before.cards, cycle(before, 0)
    for placement, rows in zip(plan.placements, rows_of(pool, plan), strict=True):
        _, shape = shape_of(before, placement.job)
        for seat, row in zip(placement.seats, rows, strict=True):
            assert pool.status[row] == 0
            assert shape.model is None or is_model_match(shape.model, pool.models[pool.model[row]])
            assert set(shape.labels) <= set(pool.node_labels[pool.node[row]].items())
            assert seat.gpu_milli == shape.held_milli
            assert seat.memory_bytes == shape.memory_on(int(pool.memory_bytes[row]))
            assert not shape.is_whole or (pool.free_milli[row], pool.free_bytes[row]) == (
                WHOLE,
                pool.memory_bytes[row],
            )


@fewer
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_same_snapshot_gives_the_same_plan_in_whatever_order_it_was_written(
    before: Snapshot, random
) -> None:
    names, classes = list(before.tenants), list(before.waiting)
    random.shuffle(names)
    random.shuffle(classes)
    labels = tuple(dict(reversed(list(label.items()))) for label in before.cards.node_labels)
    shuffled = replace(
        before,
        cards=replace(before.cards, node_labels=labels),
        tenants={name: before.tenants[name] for name in names},
        waiting=tuple(classes),
    )
    for now_ns in (0, 10**18):
        assert cycle(shuffled, now_ns) == cycle(before, now_ns)


@often
@given(snapshots())
def test_planning_changes_nothing_in_the_snapshot(before: Snapshot) -> None:
    columns = [
        column.copy()
        for column in (before.cards.free_milli, before.cards.free_bytes, before.cards.generation)
    ]
    held = dict(before.tenants)
    cycle(before, 0)
    now = (before.cards.free_milli, before.cards.free_bytes, before.cards.generation)
    assert all(np.array_equal(old, new) for old, new in zip(columns, now, strict=True))
    assert before.tenants == held


@often
@given(snapshots(), st.sampled_from([1, 3, 64]))
def test_planning_and_applying_until_nothing_is_placed_places_no_job_twice(
    before: Snapshot, limit: int
) -> None:
    placed: Counter[str] = Counter()
    now = before
    while (plan := cycle(now, 0, limit=limit)).placements:
        assert len(plan.placements) <= limit
        placed.update(placement.job for placement in plan.placements)
        now = apply(now, plan)
    assert set(placed.values()) <= {1}
    if not any(waiting.count > len(waiting.job_ids) for waiting in before.waiting):
        assert placed.total() + sum(waiting.count for waiting in now.waiting) == sum(
            w.count for w in before.waiting
        )


@often
@given(snapshots(), st.sampled_from([0, 1, 64]))
def test_every_class_of_which_something_waits_is_told_why_and_no_other(
    before: Snapshot, limit: int
) -> None:
    plan = cycle(before, 0, limit=limit)
    placed = {placement.job for placement in plan.placements}
    rest = {w.key for w in before.waiting if w.count > sum(head in placed for head in w.job_ids)}
    assert set(plan.rejections) == rest
    for said in plan.rejections.values():
        assert said.sentence
        assert said.fits_ever or said.dominant is not RejectionReason.BEHIND


@often
@given(snapshots())
def test_what_a_plan_below_its_limit_leaves_waiting_fits_nowhere_afterwards(
    before: Snapshot,
) -> None:
    plan = cycle(before, 0)
    after = apply(before, plan)
    for waiting in after.waiting:
        if waiting.job_ids:
            assert cycle(replace(after, waiting=(waiting,)), 0).placements == ()
            assert plan.rejections[waiting.key].dominant is not RejectionReason.BEHIND


def _fits_somewhere(pool: CardTable, shape: Shape, view: TenantView) -> bool:
    """Written anew, card by card, without any of the scheduler's columns."""
    room = compute_own_headroom(view)
    for node in range(len(pool.nodes)):
        needs = []
        for row in np.flatnonzero(pool.node == node):
            size, need = int(pool.memory_bytes[row]), shape.memory_on(int(pool.memory_bytes[row]))
            milli, free = int(pool.free_milli[row]), int(pool.free_bytes[row])
            right = shape.model is None or is_model_match(shape.model, pool.models[pool.model[row]])
            right = right and all(
                pool.node_labels[node].get(key) == value for key, value in shape.labels
            )
            roomy = (milli, free) == (WHOLE, size) if shape.is_whole else milli >= shape.held_milli
            if right and pool.status[row] == 0 and roomy and need <= free:
                needs.append(need)
        seats = sorted(needs)[: shape.count]
        if len(seats) == shape.count and room.covers(
            ResourceAmount(shape.held_milli * shape.count, sum(seats))
        ):
            return True
    return False


@often
@given(pools(), shapes, views, policies)
def test_a_claim_alone_is_placed_exactly_when_it_fits_somewhere(
    pool: CardTable, shape: Shape, view: TenantView, policy: str
) -> None:
    # A tenant that holds more than the pool has (cards were lost) finds no room in it, whatever the
    # reference says.
    assume(view.held.gpu_milli + shape.held_milli * shape.count <= WHOLE * len(pool))
    alone = Snapshot(1, pool, {"nlp": view}, (WaitingClass("nlp", 0, shape, ("j",), 1, 0),), policy)
    assert bool(cycle(alone, 0).placements) == _fits_somewhere(pool, shape, view)


@often
@given(pools(), shapes, views)
def test_what_is_refused_forever_is_not_placed_in_the_empty_open_pool_either(
    pool: CardTable, shape: Shape, view: TenantView
) -> None:
    said = judge_claim(shape, view, pool, tenant_name="nlp")
    empty = replace(
        pool,
        status=np.zeros_like(pool.status),
        free_milli=np.full_like(pool.free_milli, WHOLE),
        free_bytes=pool.memory_bytes.copy(),
    )
    fits = _fits_somewhere(empty, shape, replace(view, held=ResourceAmount()))
    if said is not None:
        assert not said.fits_ever
        assert not fits
    elif shape.memory_bytes is not None or view.quota.maximum_memory_bytes is None:
        assert fits  # a proportional claim's least memory is only a bound when cards differ


@often
@given(pools(), shapes, views)
def test_the_nearest_fit_that_is_offered_would_be_placed(
    pool: CardTable, shape: Shape, view: TenantView
) -> None:
    before = Snapshot(1, pool, {"nlp": view}, ())
    asked = WaitingClass("nlp", 0, shape, ("j",), 1, 0)
    told = explain_claim(before, asked, 0)
    assume(told.nearest is not None)
    assert told.nearest is not None
    assert _fits_somewhere(pool, told.nearest, view)
    assert (told.nearest == shape) == (told.dominant is None)


@often
@given(pools(), shapes.map(lambda shape: replace(shape, count=1)))
def test_binpack_opens_no_untouched_card_while_a_used_one_of_the_node_fits(
    pool: CardTable, shape: Shape
) -> None:
    before = snapshot(pool, WaitingClass("nlp", 0, shape, ("j",), 1, 0))
    plan = cycle(before, 0)
    assume(plan.placements)
    (row,) = rows_of(pool, plan)[0]
    untouched = (pool.free_milli == WHOLE) & (pool.free_bytes == pool.memory_bytes)
    if untouched[row]:
        others = (pool.node == pool.node[row]) & ~untouched
        closed = replace(pool, status=np.where(others, pool.status, 1))
        assert not _fits_somewhere(closed, shape, before.tenants["nlp"])


@often
@given(snapshots())
def test_explain_agrees_with_the_plan(before: Snapshot) -> None:
    plan = cycle(before, 0)
    for waiting in before.waiting:
        told, said = explain_claim(before, waiting, 0), plan.rejections.get(waiting.key)
        assert told.dominant == (said.dominant if said else None)
        # The plan tells what is short now, the explanation also what only a change of quotas could
        # mend.
        assert (
            said is None
            or told.sentence == said.sentence
            or told.sentence.startswith("cannot start while ")
        )


@fewer
@given(mixtures())
def test_gangs_are_whole_or_absent(before: Snapshot) -> None:
    plan = cycle(before, 0)
    placed = {placement.job for placement in plan.placements}
    for waiting in before.waiting:
        if waiting.gang is not None and placed & set(waiting.job_ids):
            for name, one in by_member(waiting).items():
                there = [
                    job
                    for job, of in waiting.gang.map_roles().items()
                    if of is one and job in placed
                ]
                assert len(there) >= one.minimum, name


def by_member(waiting: WaitingClass) -> dict[str, GangRole]:
    assert waiting.gang is not None
    return {one.name: one for one in waiting.gang.root.iterate_roles()}


def _spread(group: GangGroup, seated: dict[str, list[int]], level: TopologyLevel) -> bool:
    """Whether every group that requires a rack, and every one inside it, is in one rack."""
    nodes = [node for one in group.iterate_roles() for node in seated[one.name]]
    if group.within.required == "rack" and nodes:
        racks = {int(level.of_node[node]) for node in nodes}
        if len(racks) > 1 or -1 in racks:
            return True
    if group.within.required == "node" and len(set(nodes)) > 1:
        return True
    return any(_spread(part, seated, level) for part in group.parts if isinstance(part, GangGroup))


@fewer
@given(mixtures())
def test_what_must_be_near_together_is(before: Snapshot) -> None:
    node = {
        placement.job: before.cards.nodes.index(placement.node)
        for placement in cycle(before, 0).placements
    }
    for waiting in before.waiting:
        if waiting.gang is not None:
            roles = waiting.gang.map_roles().items()
            seated = {
                name: [node[j] for j, of in roles if of is one and j in node]
                for name, one in by_member(waiting).items()
            }
            assert not _spread(waiting.gang.root, seated, before.cards.levels[0])


@fewer
@given(mixtures())
def test_gangs_overcommit_nothing_and_take_no_tenant_over_its_maximum(before: Snapshot) -> None:
    test_no_card_is_overcommitted_in_compute_or_memory.hypothesis.inner_test(before)  # type: ignore[attr-defined]
    test_no_tenant_is_taken_over_its_maximum.hypothesis.inner_test(before)  # type: ignore[attr-defined]
    test_every_class_of_which_something_waits_is_told_why_and_no_other.hypothesis.inner_test(
        before, 64
    )  # type: ignore[attr-defined]


@fewer
@given(
    mixtures(), st.lists(st.tuples(st.integers(0, 11), st.sampled_from([0, 250, 1000])), max_size=6)
)
def test_a_board_that_lives_on_gives_the_plans_of_a_new_one(
    before: Snapshot, ends: list[tuple[int, int]]
) -> None:
    board, now = PlanningState(before), before
    for row, free in [*ends, (0, 1000)]:
        plan = cycle(now, 0, limit=4, board=board)
        assert plan == cycle(now, 0, limit=4)
        now = apply(now, plan)
        milli = now.cards.free_milli.copy()
        milli[row % len(milli)] = free
        now = replace(now, cards=replace(now.cards, free_milli=milli))


@st.composite
def crowds(draw: st.DrawFn) -> Snapshot:
    """Gangs and claims of any priority before a pool in which jobs of other priorities run, some as
    gangs."""
    before = draw(mixtures())
    pool, jobs = before.cards, list[RunningJob]()
    for row in range(len(pool)):
        if pool.status[row] == 0 and draw(st.booleans()):
            want = Shape(int(pool.free_milli[row]), int(pool.free_bytes[row]))
            if want.gpu_milli and want.memory_bytes:
                since = draw(st.integers(0, 9)) * 10**9
                near, goes = (
                    draw(st.sampled_from(["", "", "x", "y"])),
                    draw(st.sampled_from([True, True, False])),
                )
                one = running(
                    pool,
                    f"r{row}",
                    pool.uuids[row],
                    want=want,
                    since=since,
                    preemptible=goes,
                    gang=near,
                )
                jobs.append(
                    replace(one, tenant="audio", priority=draw(st.sampled_from([-100, 0, 50])))
                )
    held = ResourceAmount(sum(sum(job.milli) for job in jobs), sum(sum(job.sizes) for job in jobs))
    tenants = {**before.tenants, "audio": replace(before.tenants["audio"], held=held)}
    return replace(before, cards=occupied(pool, *jobs), running=tuple(jobs), tenants=tenants)


RULES = PreemptionRules(protected_s=0)


def without(before: Snapshot, gone: set[str]) -> Snapshot:
    """As it is when these jobs have given their seats back."""
    left = [job for job in before.running if job.job in gone]
    cards, held = before.cards, before.tenants["audio"].held
    freed = replace(cards, free_milli=cards.free_milli.copy(), free_bytes=cards.free_bytes.copy())
    for job in left:
        freed.free_milli[list(job.rows)] += job.milli
        freed.free_bytes[list(job.rows)] += job.sizes
        held = held - ResourceAmount(sum(job.milli), sum(job.sizes))
    tenants = {**before.tenants, "audio": replace(before.tenants["audio"], held=held)}
    stay = tuple(job for job in before.running if job.job not in gone)
    return replace(before, cards=freed, running=stay, tenants=tenants)


def _on_borrowed_quota(before: Snapshot, name: str) -> bool:
    """Whether the tenant holds more than its own nominal part, or than the others' leave of the
    pool."""
    view, open_ = before.tenants[name], before.cards.status == 0
    others = [one.quota for other, one in before.tenants.items() if other != name]
    parts = (
        (view.held.gpu_milli, "nominal_milli", WHOLE * int(open_.sum())),
        (
            view.held.memory_bytes,
            "nominal_memory_bytes",
            int(before.cards.memory_bytes[open_].sum()),
        ),
    )
    for held, kind, size in parts:
        own, promised = getattr(view.quota, kind), [getattr(one, kind) for one in others]
        if own is None and any(promised):
            own = size - sum(part or 0 for part in promised)
        if own is not None and held > max(0, own):
            return True
    return False


def _inside_guarantee(view: TenantView, asked: WaitingClass) -> bool:
    """Of what the claim takes: one that takes no compute is judged by memory alone, however much
    compute is held."""
    shapes = (
        [asked.shape]
        if asked.gang is None
        else [role.shape for role in asked.gang.root.iterate_roles()]
    )
    milli = view.held.gpu_milli if any(shape.held_milli for shape in shapes) else 0
    size = view.held.memory_bytes if any(shape.memory_bytes != 0 for shape in shapes) else 0
    return view.quota.guarantees_total(ResourceAmount(milli, size))


@often
@given(crowds())
def test_who_leaves_is_of_lower_priority_or_on_borrowed_quota_and_gangs_leave_whole(
    before: Snapshot,
) -> None:
    plan, jobs = cycle(before, 10**12, rules=RULES), {job.job: job for job in before.running}
    asks = {head: w for w in before.waiting for head in (*w.job_ids, w.key.gang)}
    gone = [jobs[eviction.job] for eviction in plan.evictions]
    assert len({job.job for job in gone}) == len(gone)
    for eviction, job in zip(plan.evictions, gone, strict=True):
        asked = asks[eviction.beneficiary]
        if "had borrowed" in eviction.why:  # its owner takes it back: priority does not protect
            assert _on_borrowed_quota(before, job.tenant)
            assert asked.tenant != job.tenant
            assert _inside_guarantee(before.tenants[asked.tenant], asked)
        else:
            assert job.preemptible
            assert job.priority < asked.priority
    for name in {job.gang for job in gone} - {""}:
        assert {job.job for job in jobs.values() if job.gang == name} <= {job.job for job in gone}


def _alone(before: Snapshot, beneficiary: str) -> Snapshot:
    """With nobody waiting but it: claims of higher rank may take what comes free before it, as at
    any time."""
    (asked,) = (w for w in before.waiting if beneficiary in (*w.job_ids, w.key.gang))
    if asked.gang is None:
        asked = replace(asked, job_ids=(beneficiary,), submitted_ns=(), count=1)
    return replace(before, waiting=(asked,))


@often
@given(crowds())
def test_evicting_is_never_useless(before: Snapshot) -> None:
    plan = cycle(before, 10**12, rules=RULES)
    after = without(apply(before, plan), {eviction.job for eviction in plan.evictions})
    free_milli, free_bytes = after.cards.free_milli.copy(), after.cards.free_bytes.copy()
    for beneficiary in {eviction.beneficiary for eviction in plan.evictions}:
        alone = _alone(after, beneficiary)
        found = cycle(alone, 10**12, limit=1000, rules=PreemptionRules(enabled=False)).placements
        assert beneficiary in {
            name for placement in found for name in (placement.job, placement.gang)
        }
    for start in {w.key: plan.starts[w.key] for w in _beneficiaries(before, plan)}.values():
        np.subtract.at(free_milli, list(start.rows), start.milli)
        np.subtract.at(free_bytes, list(start.rows), start.sizes)
        rows = list(start.rows)
        assert (free_milli[rows] >= 0).all()  # what is kept for one is kept for nobody else
        assert (free_bytes[rows] >= 0).all()


def _beneficiaries(before: Snapshot, plan: Plan) -> list[WaitingClass]:
    wanted = {eviction.beneficiary for eviction in plan.evictions}
    return [w for w in before.waiting if wanted & {*w.job_ids, w.key.gang}]


@often
@given(crowds())
def test_a_plan_with_evictions_leaves_the_board_as_it_was(before: Snapshot) -> None:
    board = PlanningState(before)
    columns = board.free.milli.copy(), board.free.size.copy()
    assert cycle(before, 10**12, board=board, rules=RULES) == cycle(before, 10**12, rules=RULES)
    assert np.array_equal(board.free.milli, columns[0])
    assert np.array_equal(board.free.size, columns[1])


def _awake(
    before: Snapshot,
    now_ns: int,
    limit: int,
    board: PlanningState,
    rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
) -> Plan:
    with cycle_with_state(before, now_ns, limit, board, rules) as (plan, _):
        return plan


ends_of_jobs = st.lists(st.sampled_from([0, 250, 1000]), max_size=4)


@often
@given(st.one_of(mixtures(), crowds()), st.integers(1, 8), ends_of_jobs)
def test_classes_that_sleep_change_no_plan(before: Snapshot, limit: int, ends: list[int]) -> None:
    """Without limits; also from plan to plan, and with the sentences of those that slept."""
    free = {name: replace(view, quota=Quota()) for name, view in before.tenants.items()}
    _sleeps_as_awake(replace(before, tenants=free), limit, ends, PreemptionRules(enabled=False))


@often
@given(st.one_of(mixtures(), crowds()), st.integers(1, 8), ends_of_jobs, st.booleans())
def test_classes_that_sleep_beside_quotas_change_no_plan(
    before: Snapshot, limit: int, ends: list[int], evicts: bool
) -> None:
    """Where borrowed quota is taken back those inside their guarantee go first, though nobody may
    be evicted."""
    stays = tuple(replace(job, preemptible=False) for job in before.running)
    _sleeps_as_awake(replace(before, running=stays), limit, ends, PreemptionRules(enabled=evicts))


def _sleeps_as_awake(before: Snapshot, limit: int, ends: list[int], rules: PreemptionRules) -> None:
    boards = PlanningState(before), PlanningState(before)
    patched = {
        "engine.cycle_state.FEWEST": 0,
        "workspace.class_columns.FEWEST": 0,
        "engine.start_promises.LOOKS": 1,
    }
    with ExitStack() as stack:
        for name, value in patched.items():
            stack.enter_context(mock.patch(f"gpupool.scheduling.{name}", value))
        for row, milli in enumerate([*ends, 0]):
            plan = cycle(before, 10**12, limit=limit, board=boards[0], rules=rules)
            assert plan == _awake(before, 10**12, limit, boards[1], rules)
            assert list(plan.rejections) == [one.key for one in apply(before, plan).waiting]
            before = replace(apply(before, plan), previous_starts=plan.starts)
            column = before.cards.free_milli.copy()
            column[row % len(column)] = milli
            before = replace(before, cards=replace(before.cards, free_milli=column))
