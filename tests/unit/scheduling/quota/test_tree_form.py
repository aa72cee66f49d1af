from tests.support.quota_builders import gpus, member, tree


def test_those_without_any_limit_are_guaranteed_what_nominal_parts_leave_of_the_pool() -> None:
    found = tree("1x8xH200", nlp=member(gpu=6), guest=member())
    assert not found.is_borrowing("guest", gpus(2))
    assert found.is_borrowing("guest", gpus(3))
    assert found.has_room("guest", gpus(8))


def test_a_tenant_whose_cohort_nobody_knows_hangs_below_the_pool() -> None:
    found = tree("1x8xH200", nlp=member("gone", 4))
    assert [node.title for node in found.leaves["nlp"].list_ancestors()] == [
        "tenant nlp",
        "the pool",
    ]
