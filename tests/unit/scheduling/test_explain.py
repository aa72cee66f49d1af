"""What `explain` answers: the sentence of the plan, the nearest fit, and what would help."""

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Reason, Shape
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.explain import Explanation, explain
from gpupool.scheduling.snapshot import CardStatus, TenantView
from gpupool.scheduling.victims import PreemptionRules
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole

BUSY = {f"node-1/{place}": (600 + place, GIB) for place in range(8)}
WAIT = "wait: it starts as soon as enough is given back"


def told(
    pool: str,
    want: Shape,
    used: dict[str, tuple[int, int]] | None = None,
    *,
    status: dict[str, CardStatus] | None = None,
    labels: dict[str, dict[str, str]] | None = None,
    view: TenantView | None = None,
) -> Explanation:
    columns = cards(pool, used=used, status=status, labels=labels)
    asked = waiting("a", want=want)
    return explain(snapshot(columns, asked, tenants={"nlp": view or tenant()}), asked, 0)


def test_a_smaller_share_is_offered_when_compute_is_short() -> None:
    answer = told("8xH200", shape(500), BUSY)
    assert answer.sentence == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card; all 8 cards lack compute (most free: 0.40)"
    )
    assert (answer.dominant, answer.cards) == (Reason.COMPUTE, {Reason.COMPUTE: 8})
    assert answer.nearest == shape(400)
    assert answer.helps == ("ask for 0.40 GPU (40 % compute) + 8192 MiB: it fits now", WAIT)


def test_less_memory_is_offered_when_memory_is_short() -> None:
    answer = told("1xT4", shape(500, 10 * GIB), {"node-1/0": (100, 9 * GIB)})
    assert answer.nearest == shape(500, 6 * GIB)
    assert answer.sentence.endswith("; the only card lacks memory (free: 6144 MiB)")


def test_fewer_cards_are_offered_before_smaller_shares() -> None:
    answer = told("8xH200", whole(8), {"node-1/0": (300, GIB)})
    assert answer.nearest == Shape(1000, 140 * GIB, 7)
    assert answer.helps == (
        "ask for 7 × [1.00 GPU (100 % compute) + 143360 MiB]: it fits now",
        "ask for 8 × [0.70 GPU (70 % compute) + 100352 MiB]: it fits now",
        WAIT,
    )


def test_another_model_is_offered_when_the_asked_one_has_less_than_half() -> None:
    busy = {f"node-1/{place}": (800, GIB) for place in range(8)}
    answer = told("8xH200+4xL40S", shape(500, model="H200"), busy)
    assert answer.nearest == shape(500, model="L40S")
    assert answer.helps == (
        "ask for 0.20 GPU (20 % compute) + 8192 MiB on H200: it fits now",
        "ask for 0.50 GPU (50 % compute) + 8192 MiB on L40S: it fits now",
        WAIT,
    )


def test_an_observed_card_that_would_match_is_offered_for_adoption() -> None:
    observed = {f"node-1/{place}": CardStatus.NOT_ADOPTED for place in range(4, 8)}
    answer = told("8xH200", shape(500), {f"node-1/{place}": (1000, 140 * GIB) for place in range(4)}, status=observed)
    assert answer.helps == ("adopt one of the 4 matching cards that are only observed: gpupool adopt", WAIT)
    assert answer.dominant is Reason.COMPUTE


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
    assert answer.sentence == "tenant nlp holds 1.80 of its maximum 2.00 GPU; this claim needs 0.50 more"
    assert answer.nearest == shape(200)
    assert answer.helps == (
        "ask for 0.20 GPU (20 % compute) + 8192 MiB: it fits now",
        "stop jobs of tenant nlp, or have an admin raise its quota: gpupool quota set",
        WAIT,
    )


def test_a_node_without_the_labels_is_offered_when_only_those_are_in_the_way() -> None:
    answer = told("2x1xT4", shape(500, zone="a"), {"node-1/0": (1000, GIB)}, labels={"node-1": {"zone": "a"}})
    assert answer.sentence == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card with zone=a; "
        "of 2 cards 1 is on a node with other labels, 1 lacks compute (most free: 0.00)"
    )
    assert answer.nearest == shape(500)


def test_nothing_is_offered_where_nothing_fits() -> None:
    answer = told("2xT4", whole(2), {"node-1/0": (1000, 15 * GIB), "node-1/1": (1000, 15 * GIB)})
    assert answer.sentence == "needs 2 whole cards on one node; all 2 cards are in use"
    assert (answer.nearest, answer.helps) == (None, (WAIT,))


def test_many_nodes_are_summed_up() -> None:
    used = {f"node-{node}/0": (600, GIB) for node in range(1, 21)}
    assert told("20x2xT4", whole(2), used).sentence == (
        "needs 2 whole cards on one node; node-1 has 1 whole card free, node-2 1, node-3 1, 17 other nodes at most 1"
    )
    assert told("20x2xT4", shape(500, count=2), used).sentence == (
        "needs 2 × [0.50 GPU (50 % compute) + 8192 MiB] on one node; "
        "node-1 has room on 1 card, node-2 on 1, node-3 on 1, 17 other nodes on at most 1"
    )


def test_a_claim_that_is_not_in_the_queue_is_judged_as_if_it_had_just_joined() -> None:
    before = snapshot("1xT4", waiting("first", want=whole(), at=1))
    answer = explain(before, waiting("what-if", at=5), now_ns=65 * 10**9)
    assert answer.sentence.endswith("the only card lacks compute (free: 0.00)")
    assert (answer.ahead, answer.waited_seconds) == (1, 64)


def test_a_claim_that_fits_is_told_so() -> None:
    answer = explain(snapshot("1xT4", tenants={"nlp": tenant()}), waiting("what-if"), 0)
    assert answer.sentence == "it fits now: node-1 is the only node that fits; on its fullest card"
    assert (answer.dominant, answer.nearest) == (None, shape())


def test_jobs_ahead_are_those_of_classes_whose_turn_is_earlier() -> None:
    classes = (
        waiting("urgent", want=whole(2), priority=100, count=5, at=9),
        waiting("older", want=whole(3), count=3, at=1),
        waiting("mine", want=whole(4), at=2),
        waiting("later", want=whole(5), count=7, at=3),
    )
    before = snapshot("8xT4", *classes, used=BUSY)
    assert [explain(before, asked, 0).ahead for asked in classes] == [0, 5, 8, 9]


def test_explain_and_the_plan_say_the_same() -> None:
    classes = waiting("a", want=whole(8)), waiting("b", tenant="vision", want=shape(900))
    before = snapshot("8xH200", *classes, used=BUSY, tenants={"vision": tenant(1000, held=500)})
    plan = cycle(before, 0)
    assert {w.key: explain(before, w, 0).sentence for w in classes} == {
        key: said.sentence for key, said in plan.rejections.items()
    }


def test_another_job_of_a_class_that_is_placed_is_told_that_it_fits() -> None:
    before = snapshot("8xT4", waiting("first", at=1))
    assert explain(before, waiting("second", at=2), 0).sentence.startswith("it fits now: ")


def test_a_card_that_is_not_whole_is_offered_as_almost_one() -> None:
    answer = told("1xT4", shape(1000, 8 * GIB), {"node-1/0": (0, GIB)})
    assert answer.sentence == "needs a whole card with 8192 MiB; the only card is in use"
    assert answer.nearest == shape(999, 8 * GIB)


NOW = 10_000 * 10**9
FULL = (1000, 140 * GIB)


def test_a_gang_is_told_how_many_members_find_room_and_that_fewer_could_start_now() -> None:
    asked = gang("g", role("driver", shape(100, GIB, model="T4"), 1), role("worker", whole(model="H200"), 6))
    used = {f"node-1/{n}": FULL for n in range(4)}
    answer = explain(snapshot("2x4xH200+1x1xT4", asked, used=used), asked, 0)
    assert answer.sentence == (
        "6 of role worker must start together and 4 find room;"
        " each needs a whole H200 card; of 9 cards 4 are in use, 1 is of another model"
    )
    assert answer.helps == ("let 4 of role worker be enough: so it could start now", WAIT)
    assert (answer.dominant, answer.nearest, answer.cards) == (
        Reason.GANG,
        None,
        {Reason.NOT_WHOLE: 4, Reason.MODEL: 1},
    )


def test_the_members_of_a_gang_without_named_roles_are_called_members() -> None:
    asked = gang("g", role("member", whole(), 6))
    answer = explain(snapshot("8xH200", asked, used={f"node-1/{n}": FULL for n in range(4)}), asked, 0)
    assert answer.sentence.startswith("6 members must start together and 4 find room; each needs a whole card;")
    assert answer.helps == ("let 4 members be enough: so it could start now", WAIT)


def test_a_claim_of_higher_priority_is_told_when_work_that_has_just_begun_may_be_told_to_leave() -> None:
    pool, asked = cards("1xH200"), waiting("a", want=whole())
    young = running(pool, "young", "node-1/0", want=whole(), priority=-100, since=NOW - 100 * 10**9)
    before = replace(snapshot(occupied(pool, young), asked, tenants={"nlp": tenant()}), running=(young,))
    from_then = "wait: work of lower priority may be told to leave for it from 1970-01-01T02:50:00Z on"
    assert explain(before, asked, NOW).helps == (f"{from_then}, when it has run for 300 s",)
    assert explain(before, asked, NOW, rules=PreemptionRules(enabled=False)).helps == (WAIT,)


def test_what_is_offered_to_a_gang_was_tried_for_all_of_it() -> None:
    asked = gang("g", role("a", whole(2), 3), role("b", whole(2), 3))
    answer = explain(snapshot("2x4xH200+1x1xH200", asked, used={"node-3/0": FULL}), asked, 0)
    assert answer.sentence == "6 members must start together; each role has room by itself, all have not"
    assert answer.helps == (), "twelve cards: no end of a job would help"


def test_the_head_is_told_the_start_it_is_promised_and_the_next_one_an_estimate() -> None:
    pool = cards("2xH200")
    ends = (NOW + 60 * 10**9, NOW + 3600 * 10**9)
    jobs = [replace(running(pool, f"j{n}", f"node-1/{n}", want=whole()), ends_ns=end) for n, end in enumerate(ends)]
    classes = replace(waiting("first", want=whole(2)), seconds=600), waiting("second", want=whole(), at=1)
    before = replace(snapshot(occupied(pool, *jobs), *classes), running=tuple(jobs))
    first, second = (explain(before, one, NOW) for one in before.waiting)
    assert first.start is not None
    assert (first.start.at_ns, first.start.reserved) == (ends[1], True)
    assert first.helps[-1] == "wait: it starts at 1970-01-01T03:47:40Z at the latest"
    assert second.start is not None
    assert (second.start.at_ns, second.start.reserved) == (ends[1] + 600 * 10**9, False)
    assert second.helps[-1] == (
        "wait until about 1970-01-01T03:56:40Z: enough is given back then, if nothing else comes first"
    )


def test_stopping_own_jobs_is_offered_when_it_would_be_enough_and_others_are_not_spoken_of() -> None:
    pool = cards("2xH200")
    mine = running(pool, "mine", "node-1/0", want=whole(), tenant="nlp")
    other = running(pool, "other", "node-1/1", want=whole(), tenant="vision")
    before = replace(snapshot(occupied(pool, mine, other), waiting("a", want=whole())), running=(mine, other))
    assert explain(before, before.waiting[0], NOW).helps[0] == (
        "stop 1 job of your own: it would start on the card that tenant nlp holds"
    )
    wide = replace(before, waiting=(waiting("a", want=whole(2)),))
    assert explain(wide, wide.waiting[0], NOW).helps == (WAIT,)


def test_explaining_leaves_the_board_as_it_was() -> None:
    asked = gang("g", role("worker", whole(), 6))
    before = snapshot("1x4xH200", asked, used={"node-1/0": FULL})
    board = Board(before)
    was = board.free.milli.copy()
    assert explain(before, asked, 0, board) == explain(before, asked, 0)
    assert (board.free.milli == was).all()


def test_one_gang_among_thousands_of_equal_ones_is_explained_by_looking_once() -> None:
    few, many = ([gang(f"g{n}", role("worker", whole(8), 10), at=n) for n in range(count)] for count in (2, 400))
    pool = cards("20x8xH200", used={f"node-{n}/0": FULL for n in range(1, 21)})
    looked = [cycle(snapshot(pool, *gangs), 0).effort.rows for gangs in (few, many)]
    assert looked[0] == looked[1]
