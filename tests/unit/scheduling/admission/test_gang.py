"""Which gangs are refused at submission, with the numbers, and which may wait."""

from gpupool.base.units import GIB
from gpupool.model.claim import Rejection, RejectionReason, TopologyConstraint
from gpupool.scheduling.admission.gang import judge_gang
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.snapshot import TenantView
from tests.support.gang_builders import gang, group, racked, role
from tests.support.scheduling_builders import cards, shape, tenant, whole


def judged(
    asked: WaitingClass, pool: str | CardTable, view: TenantView | None = None
) -> Rejection | None:
    assert asked.gang is not None
    columns = cards(pool) if isinstance(pool, str) else pool
    return judge_gang(asked.gang, view or tenant(), columns, tenant_name="nlp")


def refused(
    asked: WaitingClass, pool: str | CardTable, view: TenantView | None = None
) -> Rejection:
    said = judged(asked, pool, view)
    assert said is not None
    assert not said.fits_ever
    return said


def test_a_gang_larger_than_the_cluster_is_refused_with_the_numbers() -> None:
    said = refused(gang("g", role("worker", whole(8), 5)), "4x8xH200")
    assert said.sentence == (
        "5 of role worker must start together; with every card of this pool free 4 would find room"
    )
    assert (said.hint, said.dominant) == ("ask for at most 4 of role worker", RejectionReason.GANG)
    assert judged(gang("g", role("worker", whole(8), 4, 9)), "4x8xH200") is None


def test_what_is_in_use_or_closed_now_is_no_reason() -> None:
    used = {f"node-1/{n}": (1000, 140 * GIB) for n in range(4)}
    pool = cards("2x4xH200", used=used, status={"node-2/0": CardStatus.DRAINING})
    assert judged(gang("g", role("worker", whole(), 8)), pool) is None


def test_a_gang_larger_than_any_rack_it_requires_is_refused() -> None:
    pool = racked("4x4xH200", rack=(0, 0, 1, 1))
    assert (
        judged(gang("g", role("worker", whole(), 8), within=TopologyConstraint("rack")), pool)
        is None
    )
    assert refused(
        gang("g", role("worker", whole(), 9), within=TopologyConstraint("rack")), pool
    ).sentence == (
        "9 of role worker must start together in one rack; with every card of this pool free 8 would find room"
    )


def test_roles_that_fit_alone_and_not_together_are_refused() -> None:
    said = refused(gang("g", role("a", whole(), 5), role("b", whole(), 5)), "2x4xH200")
    assert said.sentence == (
        "10 members must start together; with every card of this pool free each role has room by itself, all have not"
    )


def test_a_role_that_no_card_can_take_is_named() -> None:
    said = refused(gang("g", role("worker", shape(500, 200 * GIB), 2)), "2x8xH200")
    assert said.sentence == "role worker: no card has 200 GiB (largest: H200 with 140 GiB)"
    assert said.dominant is RejectionReason.CARD_TOO_SMALL


def test_a_level_that_no_node_says_is_refused_where_it_is_required() -> None:
    inner = group("stage", role("worker", whole(), 2), within=TopologyConstraint("rack"))
    said = refused(gang("g", inner), "2x8xH200")
    assert (
        said.sentence == 'no node of this pool says which "rack" it is in; a gang may ask for node'
    )
    assert said.dominant is RejectionReason.TOPOLOGY
    assert (
        judged(
            gang("g", role("worker", whole(), 2), within=TopologyConstraint(None, "rack")),
            "2x8xH200",
        )
        is None
    )


def test_a_gang_beyond_its_tenants_maximum_is_refused() -> None:
    said = refused(gang("g", role("worker", whole(), 5)), "8xH200", tenant(3000, 1000))
    assert said.sentence == (
        "5.00 GPU is beyond tenant nlp's maximum of 4.00 GPU (nominal 3.00 + borrowing 1.00)"
    )
