"""What quotas say about a claim: room, guarantee, and which node is exhausted."""

from __future__ import annotations

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.model.quota import GPU, ResourceAmount
from gpupool.scheduling.quota.promised_use import PromisedUse
from gpupool.scheduling.quota.queue_order import UNLIMITED
from gpupool.scheduling.quota.quota_view import QuotaView
from gpupool.scheduling.quota.tree import QuotaTree
from tests.support.quota_builders import cohort, gpus, member, tree
from tests.support.scheduling_builders import whole

POOL = "1x8xH200"
CARD = ResourceAmount(WHOLE, 0)


def view(found: QuotaTree) -> QuotaView:
    made = QuotaView(found)
    made.firm = False
    return made


def test_a_pool_without_limits_has_unlimited_headroom() -> None:
    free = view(tree(POOL, nlp=member()))
    assert not free.has_limits
    assert free.get_headroom("nlp") == UNLIMITED
    assert free.admit_shape("nlp", whole(99), ResourceAmount(99 * WHOLE, 0)) == whole(99)


def test_a_claim_borrows_beyond_its_guarantee_and_has_no_room_beyond_its_maximum() -> None:
    found = tree(POOL, nlp=member(gpu=(1, 1)))
    quotas = view(found)
    assert not quotas.is_borrowing("nlp", whole(), CARD)
    found.add_use("nlp", gpus(1))
    assert quotas.is_borrowing("nlp", whole(), CARD)
    assert quotas.admit_shape("nlp", whole(), CARD) == whole()
    assert quotas.find_exhausted_node("nlp", whole(), CARD) == ""
    found.add_use("nlp", gpus(1))
    assert quotas.admit_shape("nlp", whole(), CARD) is None
    assert quotas.find_exhausted_node("nlp", whole(), CARD) == "tenant nlp"
    assert quotas.get_room("nlp", GPU) == 0


def test_tenants_below_the_exhausted_cohort_could_make_room() -> None:
    lab = {"lab": cohort((2, 0))}
    found = tree(POOL, lab, nlp=member("lab"), web=member("lab"), other=member())
    quotas = view(found)
    assert quotas.list_tenants_in_exhausted_node("nlp", whole(), CARD) is None
    found.add_use("web", gpus(2))
    assert quotas.list_tenants_in_exhausted_node("nlp", whole(), CARD) == {"nlp", "web"}


def test_a_claim_to_any_card_is_kept_to_models_with_room() -> None:
    found = tree("1x4xH200+1x4xT4", nlp=member(H200=(1, 0)))
    quotas = view(found)
    assert quotas.has_model_limits
    assert not quotas.has_only_compute_limits
    found.add_use("nlp", {f"{GPU}:H200": WHOLE})
    assert quotas.admit_shape("nlp", whole(), CARD) == Shape(WHOLE, None, 1, "T4")
    assert quotas.admit_shape("nlp", whole(model="H200"), CARD) is None


def test_only_a_run_that_meets_a_promise_must_find_room_beside_it() -> None:
    quotas = view(tree(POOL, nlp=member(gpu=(1, 0))))
    later = quotas.tree.copy()
    later.add_use("nlp", gpus(1))
    promise = PromisedUse(later, "nlp", gpus(1), False, 100, 200, frozenset())
    quotas.promised_uses.append(promise)
    assert quotas.admit_shape("nlp", whole(), CARD) == whole(), "no window is looked at"
    quotas.window = 0, 100
    assert quotas.admit_shape("nlp", whole(), CARD) == whole()
    quotas.window = 0, 101
    assert quotas.admit_shape("nlp", whole(), CARD) is None
    assert quotas.find_promise_in_way("nlp", whole(), CARD, (0, 101)) is promise
    assert quotas.find_promise_in_way("nlp", whole(), CARD, (0, 100)) is None


def test_guarantors_that_leave_nothing_out_are_not_named() -> None:
    assert view(tree(POOL, nlp=member(gpu=(2, 0)))).format_guarantors("nlp") == "tenant nlp"
    lab = {"lab": cohort((4, None))}
    quotas = view(tree(POOL, lab, nlp=member("lab"), web=member("lab", gpu=1)))
    assert quotas.format_guarantors("nlp") == "cohort lab"
