from dataclasses import replace

from gpupool.model.claim import CardSelector
from gpupool.model.quota import GPU, MEMORY, Quota, QuotaLimit, ResourceAmount
from gpupool.scheduling.filtering.feasibility import CardKind
from gpupool.scheduling.quota.pool_size import measure_pool
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.snapshot.snapshot import TenantView
from tests.support.quota_builders import cohort, gpus, member, tree
from tests.support.scheduling_builders import cards, whole


def test_a_tenant_without_limits_may_take_everything_and_borrows_nothing() -> None:
    found = tree("1x8xH200", nlp=member())
    assert found.get_room("nlp", GPU) is None
    assert found.has_room("nlp", gpus(800))
    assert not found.is_borrowing("nlp", gpus(800))


def test_the_room_of_the_largest_limits_fits_into_columns_of_64_bits() -> None:
    most = 2**62
    both = QuotaLimit(most, most)
    view = TenantView(Quota.from_limits({GPU: both, MEMORY: both}), ResourceAmount())
    assert tree("1x8xH200", nlp=view).get_room("nlp", GPU) == most


def test_the_rest_of_a_tenant_is_the_smallest_rest_on_its_path() -> None:
    cohorts = {"lab": cohort((6, 1)), "group": cohort((5, 0), parent="lab")}
    found = tree(
        "1x8xH200", cohorts, nlp=member("group", (4, 4), holds=2), vision=member("lab", holds=3)
    )
    assert found.get_room("nlp", GPU) == 2000
    assert found.has_room("nlp", gpus(2))
    assert not found.has_room("nlp", gpus(2.001))


def test_who_has_a_nominal_part_borrows_beyond_it_whatever_its_cohort_has_left() -> None:
    found = tree(
        "1x8xH200", {"lab": cohort(8)}, nlp=member("lab", 4, holds=3), vision=member("lab", 2)
    )
    assert not found.is_borrowing("nlp", gpus(1))
    assert found.is_borrowing("nlp", gpus(1.001))


def test_those_without_a_nominal_part_share_what_their_siblings_leave_of_the_cohort() -> None:
    found = tree(
        "1x16xH200",
        {"lab": cohort(8)},
        nlp=member("lab", 6),
        vision=member("lab"),
        audio=member("lab"),
    )
    assert not found.is_borrowing("vision", gpus(2))
    found.add_use("audio", gpus(1))
    assert found.is_borrowing("vision", gpus(2))
    assert not found.is_borrowing("nlp", gpus(6))


def test_what_is_not_lent_is_taken_for_everybody_but_its_owner() -> None:
    found = tree("1x8xH200", nlp=member(gpu=(4, None, 1)), guest=member())
    assert found.get_room("guest", GPU) == 5000
    assert found.get_room("nlp", GPU) == 8000
    said = found.find_exhausted("guest", gpus(6))
    assert said is not None
    assert (said.node.title, said.held, said.most, said.kept) == ("the pool", 0, 8000, 3000)
    found.add_use("guest", gpus(5))
    assert found.get_room("nlp", GPU) == 3000


def test_a_cohort_that_lends_nothing_keeps_its_nominal_part_for_its_own() -> None:
    cohorts = {"lab": cohort((6, None, 0)), "shop": cohort(2)}
    found = tree("1x8xH200", cohorts, nlp=member("lab"), web=member("shop"))
    assert found.get_room("web", GPU) == 2000
    assert found.get_room("nlp", GPU) == 8000


def test_taking_and_giving_back_leaves_the_tree_as_it_was() -> None:
    cohorts = {"lab": cohort((6, 1, 2))}
    found = tree("1x8xH200", cohorts, nlp=member("lab", (4, 2, 1), holds=1), guest=member())
    before = [found.get_room(name, GPU) for name in ("nlp", "guest")]
    mark = found.mark()
    found.add_use("nlp", gpus(4))
    found.add_use("guest", gpus(1))
    assert [found.get_room(name, GPU) for name in ("nlp", "guest")] != before
    found.rollback(mark)
    assert [found.get_room(name, GPU) for name in ("nlp", "guest")] == before


def test_a_claim_to_a_model_counts_for_that_models_limit() -> None:
    found = tree("4xH200+4xL40S", nlp=member(H200=(2, 0)))
    use = found.compute_claim_use(whole(3, "h200"), ResourceAmount(3000, 0))
    assert use["gpu:H200"] == 3000
    assert not found.has_room("nlp", use)
    assert found.has_room("nlp", found.compute_claim_use(whole(3, "L40S"), ResourceAmount(3000, 0)))


def test_a_claim_to_any_card_is_kept_to_the_models_of_which_there_is_more_to_have() -> None:
    found = tree("4xH200+4xL40S", nlp=member(H200=(2, 0)))
    assert found.narrow_to_open_models("nlp", whole(2)) == whole(2)
    found.add_use("nlp", found.compute_seats_use([CardKind("H200", "nvidia")], 1000, 0))
    assert found.narrow_to_open_models("nlp", whole(2)) == whole(2, "L40S")
    assert found.narrow_to_open_models("nlp", whole(2, "H200")) is None


def test_a_quota_of_limits_has_those_limits() -> None:
    view = member(gpu=(4, 2, 1), memory_gib=10, H200=(1, 0))
    assert view.quota.limits == {
        GPU: QuotaLimit(4000, 2000, 1000),
        MEMORY: QuotaLimit(10 << 30, None, None),
        "gpu:H200": QuotaLimit(1000, 0, None),
    }


def test_a_claim_to_a_model_counts_for_the_limit_of_its_vendor() -> None:
    found = tree("4xH200+4xMI300X", nlp=member(AMD=(2, 0)))
    use = found.compute_claim_use(whole(3, "mi300x"), ResourceAmount(3000, 0))
    assert use["gpu:AMD"] == 3000
    assert not found.has_room("nlp", use)
    assert found.has_room("nlp", found.compute_claim_use(whole(3, "H200"), ResourceAmount(3000, 0)))


def test_a_claim_to_a_vendor_counts_for_the_limit_of_that_vendor() -> None:
    found = tree("4xH200+2xMI300X+2xMI210", nlp=member(AMD=(3, 0)))
    asked = replace(whole(4), selector=CardSelector(vendor="amd"))
    assert found.compute_claim_use(asked, ResourceAmount(4000, 0))["gpu:AMD"] == 4000
    assert "gpu:AMD" not in {
        r
        for r, amount in found.compute_claim_use(whole(4), ResourceAmount(4000, 0)).items()
        if amount
    }


def test_seats_count_for_the_limits_of_their_model_and_of_its_vendor() -> None:
    found = tree("4xH200+4xMI300X", nlp=member(AMD=2, MI300X=1, NVIDIA=1))
    use = found.compute_seats_use([CardKind("MI300X", "amd"), CardKind("H200", "nvidia")], 500, 0)
    assert use == {GPU: 1000, MEMORY: 0, "gpu:AMD": 500, "gpu:MI300X": 500, "gpu:NVIDIA": 500}


def test_a_claim_to_any_card_is_kept_to_the_vendors_of_which_there_is_more_to_have() -> None:
    found = tree("4xH200+4xMI300X", nlp=member(NVIDIA=(2, 0)))
    found.add_use("nlp", found.compute_seats_use([CardKind("H200", "nvidia")], 1000, 0))
    assert found.narrow_to_open_models("nlp", whole(2)) == whole(2, "MI300X")
    assert found.narrow_to_open_models("nlp", whole(2, "H200")) is None


def test_a_model_of_two_vendors_is_left_out_where_one_of_them_has_no_more() -> None:
    pool = replace(
        cards("4xH200+4xMI300X"), models=("UNKNOWN", "UNKNOWN"), vendors=("nvidia", "amd")
    )
    found = QuotaTree({"nlp": member(AMD=(1, 0))}, {}, measure_pool(pool))
    assert found.size.get_total("gpu:AMD") == found.size.get_total("gpu:NVIDIA") == 4000
    assert found.narrow_to_open_models("nlp", whole(2)) is None
    asked = replace(whole(2), selector=CardSelector(vendor="nvidia"))
    assert found.narrow_to_open_models("nlp", asked) == asked
