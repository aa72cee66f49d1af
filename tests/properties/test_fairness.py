"""What holds for every quota tree and every queue: limits, the order of turns, and what is taken
back."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpupool.base.units import WHOLE
from gpupool.model.quota import GPU, Quota, QuotaBranch, QuotaLimit
from gpupool.scheduling.engine.class_queue import ClassQueue
from gpupool.scheduling.quota.queue_order import compute_standing
from gpupool.scheduling.quota.reclaim import list_reclaimable_lots
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import QuotaNode
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from tests.support.quota_builders import gpus, member, runs, tree
from tests.support.scheduling_builders import cards, waiting

POOL, CARDS = "1x12xH200", 12
TENANTS = ("a", "b", "c", "d")
COHORTS = ("lab", "shop", "group")
often = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

part = st.sampled_from([None, None, 0, 1, 2, 3, 5])
weights = st.sampled_from([500, 1000, 1000, 2000, 3000])


@st.composite
def limits(draw: st.DrawFn, nominal: int | None) -> Quota:
    if nominal is None:
        return Quota.from_limits({})
    over, lent = (None if n is None else n * WHOLE for n in (draw(part), draw(part)))
    return Quota.from_limits({GPU: QuotaLimit(nominal * WHOLE, over, lent)})


@st.composite
def trees(draw: st.DrawFn) -> QuotaTree:
    """Two cohorts below the pool, one inside the first, four tenants anywhere; nominal parts fit
    into what is above."""
    above = {"lab": None, "shop": None, "group": "lab"}
    where = {name: draw(st.sampled_from([None, *COHORTS])) for name in TENANTS}
    own: dict[str, int | None] = {name: draw(part) for name in (*COHORTS, *TENANTS)}
    _fit(own, above | where)
    cohorts = {
        name: QuotaBranch(above[name], draw(limits(own[name])), draw(weights)) for name in COHORTS
    }
    views = {name: replace(member(where[name]), quota=draw(limits(own[name]))) for name in TENANTS}
    past = {name: draw(st.integers(0, 10**12)) for name in TENANTS}
    return tree(
        POOL,
        cohorts,
        **{n: replace(v, past=past[n], weight_milli=draw(weights)) for n, v in views.items()},
    )


def _fit(own: dict[str, int | None], above: Mapping[str, str | None]) -> None:
    """Take from children until no node promises more than it has."""
    for name in (None, "lab", "shop", "group"):
        left = CARDS if name is None else own[name]
        for child in _promised(name, own, above) if left is not None else ():
            own[child] = min(own[child] or 0, left or 0)
            left = (left or 0) - (own[child] or 0)


def _promised(
    name: str | None, own: Mapping[str, int | None], above: Mapping[str, str | None]
) -> list[str]:
    """The nearest nodes below that have a nominal part."""
    found = []
    for child in (child for child, parent in above.items() if parent == name):
        found += [child] if own[child] is not None else _promised(child, own, above)
    return found


@st.composite
def queues(draw: st.DrawFn) -> list[WaitingClass]:
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from(TENANTS), st.sampled_from([0, 100])), min_size=1, unique=True
        )
    )
    return [_class(draw, name, priority) for name, priority in keys]


def _class(draw: st.DrawFn, name: str, priority: int) -> WaitingClass:
    ages = tuple(sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))))
    heads = [f"{name}{priority}-{n}" for n in range(len(ages))]
    return waiting(*heads, tenant=name, priority=priority, ages=ages)


def place(
    found: QuotaTree, classes: list[WaitingClass], room: int = CARDS
) -> list[tuple[str, int, bool]]:
    """Give out single cards in the order of the queue: (job, priority, whether it borrowed)."""

    def borrowing(i: int) -> bool:
        return found.is_borrowing(classes[i].tenant, gpus(1))

    queue = ClassQueue(classes, borrowing, lambda i: compute_standing(found, classes[i].tenant))
    order = []
    while len(order) < room and (turn := queue.take_next()) is not None:
        i, head = turn
        one = classes[i]
        if found.has_room(one.tenant, gpus(1)):
            order.append((one.job_ids[head], one.priority, borrowing(i)))
            found.add_use(one.tenant, gpus(1))
            queue.put_back(i, head + 1)
    return order


def nodes(found: QuotaTree) -> set[QuotaNode]:
    return {node for leaf in found.leaves.values() for node in leaf.list_ancestors()}


@often
@given(trees(), queues())
def test_nobody_is_over_its_maximum_anywhere_on_the_path(
    found: QuotaTree, classes: list[WaitingClass]
) -> None:
    place(found, classes)
    for node in nodes(found):
        for resource, limit in node.limits.items():
            assert limit.maximum is None or node.held.get(resource, 0) <= limit.maximum


@often
@given(trees(), queues())
def test_what_is_not_lent_is_there_for_its_owner(
    found: QuotaTree, classes: list[WaitingClass]
) -> None:
    kept = {
        name: leaf.limits[GPU].unlent for name, leaf in found.leaves.items() if GPU in leaf.limits
    }
    given_out = len(place(found, classes)) * WHOLE
    unused = sum(max(0, size - found.leaves[name].held.get(GPU, 0)) for name, size in kept.items())
    assert given_out + unused <= CARDS * WHOLE


@often
@given(trees(), queues())
def test_of_equal_priority_no_claim_inside_the_nominal_part_comes_after_one_that_borrows(
    found: QuotaTree, classes: list[WaitingClass]
) -> None:
    order = [(-priority, borrowed) for _job, priority, borrowed in place(found, classes)]
    assert order == sorted(order)


@often
@given(trees(), queues(), st.permutations(TENANTS))
def test_names_of_tenants_decide_nothing(
    found: QuotaTree, classes: list[WaitingClass], names: list[str]
) -> None:
    new = dict(zip(TENANTS, names, strict=True))
    renamed = QuotaTree.__new__(QuotaTree)
    renamed.__dict__ |= found.__dict__ | {
        "leaves": {new[name]: leaf for name, leaf in found.leaves.items()}
    }
    mark = found.mark()
    before = place(found, classes)
    found.rollback(mark)
    assert place(renamed, [replace(one, tenant=new[one.tenant]) for one in classes]) == before


@often
@given(trees(), queues(), st.randoms(use_true_random=False))
def test_the_order_is_the_same_whatever_the_order_of_the_classes(
    found: QuotaTree, classes: list[WaitingClass], random
) -> None:
    mark = found.mark()
    before = place(found, classes)
    found.rollback(mark)
    random.shuffle(classes)
    assert place(found, classes) == before


def fill(found: QuotaTree, holders: list[tuple[str, bool]]) -> list[RunningJob]:
    """Single-card jobs of these tenants, firm or preemptible, as far as their limits and the pool
    allow."""
    running: list[RunningJob] = []
    for name, firm in holders:
        sides = [found, found.firm] if firm else [found]
        if len(running) < CARDS and all(
            side is None or side.has_room(name, gpus(1)) for side in sides
        ):
            found.add_use(name, gpus(1), firm=firm)
            at = len(running)
            running.append(runs(f"j{at:02}", name, at, started=at, preemptible=not firm))
    return running


holders = st.lists(st.tuples(st.sampled_from(TENANTS), st.booleans()), min_size=6, max_size=24)


@often
@given(trees(), holders, st.sampled_from(TENANTS))
def test_a_reclaim_leaves_each_tenant_what_its_nominal_part_guarantees(
    found: QuotaTree, who: list[tuple[str, bool]], claimant: str
) -> None:
    running = fill(found, who)
    before = {name: leaf.held.get(GPU, 0) for name, leaf in found.leaves.items()}
    for lot in list_reclaimable_lots(found, claimant, gpus(1), running, cards(POOL)):
        found.remove_use(lot.tenant, lot.use, firm=not lot.preemptible)
    for name, leaf in found.leaves.items():
        if GPU in leaf.limits:
            assert leaf.held.get(GPU, 0) >= min(before[name], leaf.limits[GPU].nominal or 0)


@often
@given(trees(), holders)
def test_one_reclaim_makes_room_for_any_claim_inside_a_nominal_part_whatever_borrows(
    found: QuotaTree, who: list[tuple[str, bool]]
) -> None:
    running = fill(found, who)
    if GPU not in found.resources:  # where nobody is promised anything, nobody gives anything back
        return
    for claimant, count in product(TENANTS, (1, 2, 3)):
        if not found.is_borrowing(claimant, gpus(count)):
            back = list_reclaimable_lots(found, claimant, gpus(count), running, cards(POOL))
            assert CARDS - len(running) + len(back) >= count
            assert found.firm is None or found.firm.has_room(claimant, gpus(count))
