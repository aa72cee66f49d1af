"""What `explain` answers: the sentence of the plan, the nearest fit, and what would help."""

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.explain_builders import BUSY, FULL, NOW, WAIT, told
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole


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
    answer = explain_claim(before, waiting("what-if", at=5), now_ns=65 * 10**9)
    assert answer.sentence.endswith("the only card lacks compute (free: 0.00)")
    assert (answer.ahead, answer.waited_seconds) == (1, 64)


def test_a_claim_that_fits_is_told_so() -> None:
    answer = explain_claim(snapshot("1xT4", tenants={"nlp": tenant()}), waiting("what-if"), 0)
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
    assert [explain_claim(before, asked, 0).ahead for asked in classes] == [0, 5, 8, 9]


def test_explain_and_the_plan_say_the_same() -> None:
    classes = waiting("a", want=whole(8)), waiting("b", tenant="vision", want=shape(900))
    before = snapshot("8xH200", *classes, used=BUSY, tenants={"vision": tenant(1000, held=500)})
    plan = cycle(before, 0)
    assert {w.key: explain_claim(before, w, 0).sentence for w in classes} == {
        key: said.sentence for key, said in plan.rejections.items()
    }


def test_another_job_of_a_class_that_is_placed_is_told_that_it_fits() -> None:
    before = snapshot("8xT4", waiting("first", at=1))
    assert explain_claim(before, waiting("second", at=2), 0).sentence.startswith("it fits now: ")


def test_the_members_of_a_gang_without_named_roles_are_called_members() -> None:
    asked = gang("g", role("member", whole(), 6))
    answer = explain_claim(
        snapshot("8xH200", asked, used={f"node-1/{n}": FULL for n in range(4)}), asked, 0
    )
    assert answer.sentence.startswith(
        "6 members must start together and 4 find room; each needs a whole card;"
    )
    assert answer.helps == ("let 4 members be enough: so it could start now", WAIT)


def test_the_head_is_told_the_start_it_is_promised_and_the_next_one_an_estimate() -> None:
    pool = cards("2xH200")
    ends = (NOW + 60 * 10**9, NOW + 3600 * 10**9)
    jobs = [
        replace(running(pool, f"j{n}", f"node-1/{n}", want=whole()), ends_ns=end)
        for n, end in enumerate(ends)
    ]
    classes = (
        replace(waiting("first", want=whole(2)), seconds=600),
        waiting("second", want=whole(), at=1),
    )
    before = replace(snapshot(occupied(pool, *jobs), *classes), running=tuple(jobs))
    first, second = (explain_claim(before, one, NOW) for one in before.waiting)
    assert first.start is not None
    assert (first.start.at_ns, first.start.reserved) == (ends[1], True)
    assert first.helps[-1] == "wait: it starts at 1970-01-01T03:47:40Z at the latest"
    assert second.start is not None
    assert (second.start.at_ns, second.start.reserved) == (ends[1] + 600 * 10**9, False)
    assert second.helps[-1] == (
        "wait until about 1970-01-01T03:56:40Z: enough is given back then, if nothing else comes first"
    )


def test_explaining_leaves_the_board_as_it_was() -> None:
    asked = gang("g", role("worker", whole(), 6))
    before = snapshot("1x4xH200", asked, used={"node-1/0": FULL})
    board = PlanningState(before)
    was = board.free.milli.copy()
    assert explain_claim(before, asked, 0, board) == explain_claim(before, asked, 0)
    assert (board.free.milli == was).all()


def test_one_gang_among_thousands_of_equal_ones_is_explained_by_looking_once() -> None:
    few, many = (
        [gang(f"g{n}", role("worker", whole(8), 10), at=n) for n in range(count)]
        for count in (2, 400)
    )
    pool = cards("20x8xH200", used={f"node-{n}/0": FULL for n in range(1, 21)})
    looked = [cycle(snapshot(pool, *gangs), 0).effort.rows for gangs in (few, many)]
    assert looked[0] == looked[1]
