from dataclasses import replace

from gpupool.model.quota import GPU, ResourceAmount
from gpupool.scheduling.quota.tree import QuotaTree
from tests.support.quota_builders import cohort, gpus, member, tree


def test_a_refusal_names_the_lowest_node_that_is_exhausted_with_its_numbers() -> None:
    cohorts = {"lab": cohort((6, 1))}
    found = tree(
        "1x8xH200", cohorts, nlp=member("lab", (4, 4), holds=2), vision=member("lab", holds=5)
    )
    said = found.find_exhausted("nlp", gpus(1))
    assert said is not None
    assert (said.node.title, said.resource, said.held, said.most, said.more) == (
        "cohort lab",
        GPU,
        7000,
        7000,
        1000,
    )
    own = found.find_exhausted("nlp", gpus(7))
    assert own is not None
    assert own.node.title == "tenant nlp"


def test_who_holds_too_much_may_take_nothing_more_and_keeps_what_it_has() -> None:
    view = member(gpu=(2, 0), holds=3)
    found: QuotaTree = tree("1x8xH200", nlp=view, guest=replace(view, held=ResourceAmount()))
    assert found.get_room("nlp", GPU) == 0
    assert not found.has_room("nlp", gpus(0.001))
    assert found.has_room("nlp", gpus(0))
