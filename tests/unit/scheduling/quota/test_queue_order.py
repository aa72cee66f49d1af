import itertools

from gpupool.model.quota import MEMORY
from gpupool.scheduling.engine.class_queue import ClassQueue
from gpupool.scheduling.quota.queue_order import HORIZON_S, compute_standing
from gpupool.scheduling.quota.usage_decay import MICRO_PER_CARD
from tests.support.quota_builders import cohort, gpus, member, tree
from tests.support.scheduling_builders import waiting


def served(found, classes, heads: int) -> list[str]:
    """The order in which one card each is given out while it lasts."""
    queue = ClassQueue(
        classes,
        lambda i: found.is_borrowing(classes[i].tenant, gpus(1)),
        lambda i: compute_standing(found, classes[i].tenant),
    )
    order = []
    while len(order) < heads and (turn := queue.take_next()) is not None:
        i, head = turn
        found.add_use(classes[i].tenant, gpus(1))
        order.append(classes[i].tenant)
        queue.put_back(i, head + 1)
    return order


def jobs(name: str, count: int = 12, **rest):
    return waiting(*(f"{name}-{n:02}" for n in range(count)), tenant=name, **rest)


def test_a_standing_is_what_is_held_for_an_hour_more_divided_by_the_weight() -> None:
    found = tree("1x8xH200", nlp=member(weight=2, holds=1, past=500))
    assert compute_standing(found, "nlp") == ((MICRO_PER_CARD * HORIZON_S + 500) // 2,)


def test_the_larger_of_compute_and_memory_counts() -> None:
    found = tree("1x8xH200", nlp=member(holds=1))
    found.add_use("nlp", {MEMORY: found.size.memory_bytes // 2})
    assert compute_standing(found, "nlp") == (4 * MICRO_PER_CARD * HORIZON_S,)


def test_cards_go_as_the_weights_do() -> None:
    found = tree("1x12xH200", a=member(weight=1), b=member(weight=2), c=member(weight=3))
    order = served(found, [jobs("a"), jobs("b"), jobs("c")], 12)
    assert [order.count(name) for name in "abc"] == [2, 4, 6]


def test_a_cohort_competes_as_one_before_those_in_it_do() -> None:
    found = tree("1x12xH200", {"lab": cohort()}, a=member("lab"), b=member("lab"), guest=member())
    order = served(found, [jobs("a"), jobs("b"), jobs("guest")], 12)
    assert [order.count(name) for name in ("a", "b", "guest")] == [3, 3, 6]


def test_who_had_less_before_goes_first_until_it_has_caught_up() -> None:
    found = tree("1x8xH200", a=member(past=3 * MICRO_PER_CARD * HORIZON_S), b=member())
    assert served(found, [jobs("a"), jobs("b")], 6) == ["b", "b", "b", "a", "b", "a"]


def test_claims_inside_the_nominal_part_go_before_borrowers_however_little_those_hold() -> None:
    found = tree("1x8xH200", a=member(gpu=4, holds=2), b=member(gpu=1, holds=1))
    assert served(found, [jobs("a"), jobs("b")], 4) == ["a", "a", "b", "b"]


def test_priority_goes_before_all() -> None:
    found = tree("1x8xH200", a=member(gpu=4), b=member(gpu=1, holds=1))
    assert served(found, [jobs("a"), jobs("b", priority=1)], 2) == ["b", "b"]


def test_of_equals_the_oldest_goes_first_and_then_the_lower_id() -> None:
    found = tree("1x8xH200", a=member(), b=member(), c=member())
    classes = [jobs("c", at=1), jobs("b", at=2), jobs("a", at=2)]
    for order in itertools.permutations(classes):
        assert served(found, list(order), 0) == []
        mark = found.mark()
        assert served(found, list(order), 3) == ["c", "a", "b"]
        found.rollback(mark)


def test_a_turn_costs_as_many_looks_as_classes_changed_not_as_jobs_wait() -> None:
    found, looks = tree("1x8xH200", a=member(), b=member()), []

    def look(i: int) -> tuple[int, ...]:
        looks.append(i)
        return compute_standing(found, "ab"[i])

    queue = ClassQueue([jobs("a", 1000), jobs("b", 1000)], lambda _i: False, look)
    for turn in range(100):
        taken = queue.take_next()
        assert taken is not None
        found.add_use("ab"[taken[0]], gpus(1))
        queue.put_back(taken[0], taken[1] + 1)
        assert len(looks) <= 2 + 3 * (turn + 1)
