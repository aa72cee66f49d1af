from dataclasses import replace

from gpupool.dialects.vendors import MAKERS
from gpupool.model.catalogue import CATALOGUE, VENDORS
from gpupool.model.claim import CardSelector
from gpupool.model.quota import GPU, MEMORY, Amount, Limit
from gpupool.probes import pci
from gpupool.scheduling.feasible import Kind, model_matches
from gpupool.scheduling.pool_size import pool_size
from gpupool.scheduling.quota_tree import Tree
from tests.support.quota_builders import cohort, gpus, member, tree
from tests.support.scheduling_builders import cards, whole


def test_a_tenant_without_limits_may_take_everything_and_borrows_nothing() -> None:
    found = tree("1x8xH200", nlp=member())
    assert found.room("nlp", GPU) is None
    assert found.covers("nlp", gpus(800))
    assert not found.borrows("nlp", gpus(800))


def test_the_rest_of_a_tenant_is_the_smallest_rest_on_its_path() -> None:
    cohorts = {"lab": cohort((6, 1)), "group": cohort((5, 0), parent="lab")}
    found = tree("1x8xH200", cohorts, nlp=member("group", (4, 4), holds=2), vision=member("lab", holds=3))
    assert found.room("nlp", GPU) == 2000
    assert found.covers("nlp", gpus(2))
    assert not found.covers("nlp", gpus(2.001))


def test_a_refusal_names_the_lowest_node_that_is_exhausted_with_its_numbers() -> None:
    cohorts = {"lab": cohort((6, 1))}
    found = tree("1x8xH200", cohorts, nlp=member("lab", (4, 4), holds=2), vision=member("lab", holds=5))
    said = found.exhausted("nlp", gpus(1))
    assert said is not None
    assert (said.node.title, said.resource, said.held, said.most, said.more) == ("cohort lab", GPU, 7000, 7000, 1000)
    own = found.exhausted("nlp", gpus(7))
    assert own is not None
    assert own.node.title == "tenant nlp"


def test_who_has_a_nominal_part_borrows_beyond_it_whatever_its_cohort_has_left() -> None:
    found = tree("1x8xH200", {"lab": cohort(8)}, nlp=member("lab", 4, holds=3), vision=member("lab", 2))
    assert not found.borrows("nlp", gpus(1))
    assert found.borrows("nlp", gpus(1.001))


def test_those_without_a_nominal_part_share_what_their_siblings_leave_of_the_cohort() -> None:
    found = tree("1x16xH200", {"lab": cohort(8)}, nlp=member("lab", 6), vision=member("lab"), audio=member("lab"))
    assert not found.borrows("vision", gpus(2))
    found.take("audio", gpus(1))
    assert found.borrows("vision", gpus(2))
    assert not found.borrows("nlp", gpus(6))


def test_those_without_any_limit_are_guaranteed_what_nominal_parts_leave_of_the_pool() -> None:
    found = tree("1x8xH200", nlp=member(gpu=6), guest=member())
    assert not found.borrows("guest", gpus(2))
    assert found.borrows("guest", gpus(3))
    assert found.covers("guest", gpus(8))


def test_what_is_not_lent_is_taken_for_everybody_but_its_owner() -> None:
    found = tree("1x8xH200", nlp=member(gpu=(4, None, 1)), guest=member())
    assert found.room("guest", GPU) == 5000
    assert found.room("nlp", GPU) == 8000
    said = found.exhausted("guest", gpus(6))
    assert said is not None
    assert (said.node.title, said.held, said.most, said.kept) == ("the pool", 0, 8000, 3000)
    found.take("guest", gpus(5))
    assert found.room("nlp", GPU) == 3000


def test_a_cohort_that_lends_nothing_keeps_its_nominal_part_for_its_own() -> None:
    cohorts = {"lab": cohort((6, None, 0)), "shop": cohort(2)}
    found = tree("1x8xH200", cohorts, nlp=member("lab"), web=member("shop"))
    assert found.room("web", GPU) == 2000
    assert found.room("nlp", GPU) == 8000


def test_taking_and_giving_back_leaves_the_tree_as_it_was() -> None:
    cohorts = {"lab": cohort((6, 1, 2))}
    found = tree("1x8xH200", cohorts, nlp=member("lab", (4, 2, 1), holds=1), guest=member())
    before = [found.room(name, GPU) for name in ("nlp", "guest")]
    mark = found.mark()
    found.take("nlp", gpus(4))
    found.take("guest", gpus(1))
    assert [found.room(name, GPU) for name in ("nlp", "guest")] != before
    found.rollback(mark)
    assert [found.room(name, GPU) for name in ("nlp", "guest")] == before


def test_a_claim_to_a_model_counts_for_that_models_limit() -> None:
    found = tree("4xH200+4xL40S", nlp=member(H200=(2, 0)))
    use = found.ask(whole(3, "h200"), Amount(3000, 0))
    assert use["gpu:H200"] == 3000
    assert not found.covers("nlp", use)
    assert found.covers("nlp", found.ask(whole(3, "L40S"), Amount(3000, 0)))


def test_a_claim_to_any_card_is_kept_to_the_models_of_which_there_is_more_to_have() -> None:
    found = tree("4xH200+4xL40S", nlp=member(H200=(2, 0)))
    assert found.narrowed("nlp", whole(2)) == whole(2)
    found.take("nlp", found.seats([Kind("H200", "nvidia")], 1000, 0))
    assert found.narrowed("nlp", whole(2)) == whole(2, "L40S")
    assert found.narrowed("nlp", whole(2, "H200")) is None


def test_a_tenant_whose_cohort_nobody_knows_hangs_below_the_pool() -> None:
    found = tree("1x8xH200", nlp=member("gone", 4))
    assert [node.title for node in found.leaves["nlp"].path()] == ["tenant nlp", "the pool"]


def test_a_quota_of_limits_has_those_limits() -> None:
    view = member(gpu=(4, 2, 1), memory_gib=10, H200=(1, 0))
    assert view.quota.limits == {
        GPU: Limit(4000, 2000, 1000),
        MEMORY: Limit(10 << 30, None, None),
        "gpu:H200": Limit(1000, 0, None),
    }


def test_who_holds_too_much_may_take_nothing_more_and_keeps_what_it_has() -> None:
    view = member(gpu=(2, 0), holds=3)
    found: Tree = tree("1x8xH200", nlp=view, guest=replace(view, held=Amount()))
    assert found.room("nlp", GPU) == 0
    assert not found.covers("nlp", gpus(0.001))
    assert found.covers("nlp", gpus(0))


def test_a_claim_to_a_model_counts_for_the_limit_of_its_vendor() -> None:
    found = tree("4xH200+4xMI300X", nlp=member(AMD=(2, 0)))
    use = found.ask(whole(3, "mi300x"), Amount(3000, 0))
    assert use["gpu:AMD"] == 3000
    assert not found.covers("nlp", use)
    assert found.covers("nlp", found.ask(whole(3, "H200"), Amount(3000, 0)))


def test_a_claim_to_a_vendor_counts_for_the_limit_of_that_vendor() -> None:
    found = tree("4xH200+2xMI300X+2xMI210", nlp=member(AMD=(3, 0)))
    asked = replace(whole(4), selector=CardSelector(vendor="amd"))
    assert found.ask(asked, Amount(4000, 0))["gpu:AMD"] == 4000
    assert "gpu:AMD" not in {r for r, amount in found.ask(whole(4), Amount(4000, 0)).items() if amount}


def test_seats_count_for_the_limits_of_their_model_and_of_its_vendor() -> None:
    found = tree("4xH200+4xMI300X", nlp=member(AMD=2, MI300X=1, NVIDIA=1))
    use = found.seats([Kind("MI300X", "amd"), Kind("H200", "nvidia")], 500, 0)
    assert use == {GPU: 1000, MEMORY: 0, "gpu:AMD": 500, "gpu:MI300X": 500, "gpu:NVIDIA": 500}


def test_a_claim_to_any_card_is_kept_to_the_vendors_of_which_there_is_more_to_have() -> None:
    found = tree("4xH200+4xMI300X", nlp=member(NVIDIA=(2, 0)))
    found.take("nlp", found.seats([Kind("H200", "nvidia")], 1000, 0))
    assert found.narrowed("nlp", whole(2)) == whole(2, "MI300X")
    assert found.narrowed("nlp", whole(2, "H200")) is None


def test_a_model_of_two_vendors_is_left_out_where_one_of_them_has_no_more() -> None:
    pool = replace(cards("4xH200+4xMI300X"), models=("UNKNOWN", "UNKNOWN"), vendors=("nvidia", "amd"))
    found = Tree({"nlp": member(AMD=(1, 0))}, {}, pool_size(pool))
    assert found.size.of("gpu:AMD") == found.size.of("gpu:NVIDIA") == 4000
    assert found.narrowed("nlp", whole(2)) is None
    asked = replace(whole(2), selector=CardSelector(vendor="nvidia"))
    assert found.narrowed("nlp", asked) == asked


def test_a_name_of_a_vendor_never_means_a_model() -> None:
    for vendor in VENDORS:
        assert not [model for model in CATALOGUE if model_matches(vendor, model)]
        assert not Kind(vendor.upper(), "").is_of(vendor)


def test_every_vendor_that_a_request_or_an_agent_names_can_be_limited() -> None:
    named = {maker.name for maker in MAKERS} | {card.vendor for card in CATALOGUE.values()} | set(pci.VENDORS.values())
    assert named <= VENDORS
