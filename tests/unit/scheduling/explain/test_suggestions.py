from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.cards import CardStatus
from tests.support.explain_builders import FULL, NOW, WAIT, told
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole


def test_an_observed_card_that_would_match_is_offered_for_adoption() -> None:
    observed = {f"node-1/{place}": CardStatus.NOT_ADOPTED for place in range(4, 8)}
    answer = told(
        "8xH200",
        shape(500),
        {f"node-1/{place}": (1000, 140 * GIB) for place in range(4)},
        status=observed,
    )
    assert answer.helps == (
        "adopt one of the 4 matching cards that are only observed: gpupool adopt",
        WAIT,
    )
    assert answer.dominant is RejectionReason.COMPUTE


def test_waiting_is_not_offered_where_the_open_cards_would_never_do() -> None:
    observed = {f"node-1/{place}": CardStatus.NOT_ADOPTED for place in range(4, 8)}
    answer = told("8xH200", whole(5), status=observed)
    assert answer.sentence == (
        "needs 5 whole cards on one node; node-1 has 4 whole cards free; 4 cards are not adopted"
    )
    assert answer.fits_ever
    assert answer.helps == (
        "ask for 4 × [1.00 GPU (100 % compute) + 143360 MiB]: it fits now",
        "adopt one of the 4 matching cards that are only observed: gpupool adopt",
    )


def test_a_tenant_at_its_maximum_is_told_what_its_quota_leaves() -> None:
    answer = told("8xH200", shape(500), view=tenant(2000, held=1800))
    assert (
        answer.sentence
        == "tenant nlp holds 1.80 of its maximum 2.00 GPU; this claim needs 0.50 more"
    )
    assert answer.nearest == shape(200)
    assert answer.helps == (
        "ask for 0.20 GPU (20 % compute) + 8192 MiB: it fits now",
        "stop jobs of tenant nlp, or have an admin raise its quota: gpupool quota set",
        WAIT,
    )


def test_a_gang_is_told_how_many_members_find_room_and_that_fewer_could_start_now() -> None:
    asked = gang(
        "g", role("driver", shape(100, GIB, model="T4"), 1), role("worker", whole(model="H200"), 6)
    )
    used = {f"node-1/{n}": FULL for n in range(4)}
    answer = explain_claim(snapshot("2x4xH200+1x1xT4", asked, used=used), asked, 0)
    assert answer.sentence == (
        "6 of role worker must start together and 4 find room;"
        " each needs a whole H200 card; of 9 cards 4 are in use, 1 is of another model"
    )
    assert answer.helps == ("let 4 of role worker be enough: so it could start now", WAIT)
    assert (answer.dominant, answer.nearest, answer.cards) == (
        RejectionReason.GANG,
        None,
        {RejectionReason.NOT_WHOLE: 4, RejectionReason.MODEL: 1},
    )


def test_a_claim_of_higher_priority_is_told_when_work_that_has_just_begun_may_be_told_to_leave() -> (
    None
):
    pool, asked = cards("1xH200"), waiting("a", want=whole())
    young = running(pool, "young", "node-1/0", want=whole(), priority=-100, since=NOW - 100 * 10**9)
    before = replace(
        snapshot(occupied(pool, young), asked, tenants={"nlp": tenant()}), running=(young,)
    )
    from_then = (
        "wait: work of lower priority may be told to leave for it from 1970-01-01T02:50:00Z on"
    )
    assert explain_claim(before, asked, NOW).helps == (f"{from_then}, when it has run for 300 s",)
    assert explain_claim(before, asked, NOW, rules=PreemptionRules(enabled=False)).helps == (WAIT,)


def test_what_is_offered_to_a_gang_was_tried_for_all_of_it() -> None:
    asked = gang("g", role("a", whole(2), 3), role("b", whole(2), 3))
    answer = explain_claim(snapshot("2x4xH200+1x1xH200", asked, used={"node-3/0": FULL}), asked, 0)
    assert (
        answer.sentence
        == "6 members must start together; each role has room by itself, all have not"
    )
    assert answer.helps == (), "twelve cards: no end of a job would help"


def test_stopping_own_jobs_is_offered_when_it_would_be_enough_and_others_are_not_spoken_of() -> (
    None
):
    pool = cards("2xH200")
    mine = running(pool, "mine", "node-1/0", want=whole(), tenant="nlp")
    other = running(pool, "other", "node-1/1", want=whole(), tenant="vision")
    before = replace(
        snapshot(occupied(pool, mine, other), waiting("a", want=whole())), running=(mine, other)
    )
    assert explain_claim(before, before.waiting[0], NOW).helps[0] == (
        "stop 1 job of your own: it would start on the card that tenant nlp holds"
    )
    wide = replace(before, waiting=(waiting("a", want=whole(2)),))
    assert explain_claim(wide, wide.waiting[0], NOW).helps == (WAIT,)


def test_a_gang_of_whole_cards_learns_what_is_shared_and_which_own_job_could_make_room() -> None:
    pool = cards("2x8xH200")
    mine = running(pool, "hello", "node-1/0", want=shape(300, 8 * GIB), tenant="nlp")
    asked = gang("g", role("member", whole(8), 2))
    before = replace(snapshot(occupied(pool, mine), asked), running=(mine,))
    answer = explain_claim(before, asked, NOW)
    assert answer.sentence.startswith(
        "needs 16 whole cards, 15 free and 1 shared (0.70 left); "
        "2 members must start together and 1 finds room;"
    )
    # That fewer members would fit was tried before, and left no seat taken.
    assert answer.helps == (
        "let 1 member be enough: so it could start now",
        "stop 1 job of your own: it would start on the card that tenant nlp holds",
        WAIT,
    )
