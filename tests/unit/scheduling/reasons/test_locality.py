from dataclasses import replace

from gpupool.model.claim import RejectionReason
from gpupool.scheduling.explain.explain import explain_claim
from tests.support.numa_pools import REQUIRED, planned, pool, share, told
from tests.support.scheduling_builders import snapshot, tenant, waiting


def test_a_required_numa_node_has_cards_processors_and_memory_or_the_claim_waits_with_the_numbers() -> (
    None
):
    columns = pool(held={0: 6000, 1: 5000})
    want = share(4000, within=REQUIRED)
    plan = planned(columns, want)
    (said,) = plan.rejections.values()
    assert (plan.placements, said.dominant, said.fits_ever) == ((), RejectionReason.TOPOLOGY, True)
    assert said.sentence == (
        "needs 1 card and 4 processors of one NUMA node; "
        "nearest is NUMA node 1 of node-1 with 2 cards and 3 processors free"
    )
    assert said.nodes == {RejectionReason.TOPOLOGY: 1}
    assert told(planned(columns, replace(want, cpu_milli=3000))) == [(["node-1/2"], [(1, 3000)])]


def test_explain_says_the_same_of_a_claim_that_waits() -> None:
    before = snapshot(pool(held={0: 6000, 1: 5000}))
    asked = waiting("j", want=share(4000, within=REQUIRED))
    found = explain_claim(replace(before, tenants={"nlp": tenant()}), asked, 0)
    assert found.dominant is RejectionReason.TOPOLOGY
    assert found.nodes == {RejectionReason.TOPOLOGY: 1}
