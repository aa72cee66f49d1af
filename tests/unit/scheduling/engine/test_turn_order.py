from gpupool.scheduling.engine.cycle import cycle
from tests.support.cycle_builders import seated
from tests.support.scheduling_builders import snapshot, tenant, waiting, whole


def test_higher_priority_goes_first() -> None:
    classes = (
        waiting("old", want=whole(), at=1),
        waiting("urgent", want=whole(), priority=100, at=9),
    )
    assert seated(cycle(snapshot("1xT4", *classes), 0)) == {"urgent": ("node-1/0",)}


def test_claims_inside_the_nominal_quota_go_before_those_that_borrow() -> None:
    classes = (
        waiting("borrows", tenant="big", want=whole(), at=1),
        waiting("owns", want=whole(), at=9),
    )
    tenants = {"big": tenant(1000, 8000, held=1000), "nlp": tenant(1000)}
    assert seated(cycle(snapshot("1xT4", *classes, tenants=tenants), 0)) == {"owns": ("node-1/0",)}


def test_a_class_that_starts_to_borrow_in_the_middle_lets_others_go_first() -> None:
    classes = (
        waiting("a", "b", "c", tenant="big", want=whole(), at=1),
        waiting("x", want=whole(), at=9),
    )
    tenants = {"big": tenant(1000, 8000), "nlp": tenant(1000)}
    plan = cycle(snapshot("3xT4", *classes, tenants=tenants), 0)
    assert [placement.job for placement in plan.placements] == ["a", "x", "b"]


def test_the_oldest_goes_first_across_classes_of_equal_rank() -> None:
    classes = waiting("a", "c", ages=(1, 3)), waiting("b", tenant="vision", at=2)
    plan = cycle(snapshot("8xT4", *classes), 0)
    assert [placement.job for placement in plan.placements] == ["a", "b", "c"]
