from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason
from gpupool.scheduling.engine.cycle import cycle
from tests.support.gang_builders import gang, role
from tests.support.gang_plans import FULL, sentence
from tests.support.scheduling_builders import shape, snapshot, waiting, whole


def test_a_gang_that_does_not_fit_whole_gets_nothing_and_says_how_many_find_room() -> None:
    before = snapshot(
        "2x4xH200",
        gang("g", role("worker", whole(), 6)),
        used={f"node-1/{n}": FULL for n in range(3)},
    )
    assert sentence(before) == (
        "6 of role worker must start together and 5 find room; each needs a whole card; of 8 cards 3 are in use"
    )
    (said,) = cycle(before, 0).rejections.values()
    assert (said.dominant, said.cards, said.fits_ever) == (
        RejectionReason.GANG,
        {RejectionReason.NOT_WHOLE: 3},
        True,
    )


def test_the_first_role_that_finds_too_few_seats_is_named() -> None:
    parts = (
        role("launcher", shape(100, GIB, model="T4"), 2, launcher=True),
        role("worker", whole(4), 2),
    )
    before = snapshot("1x4xH200+1x1xT4", gang("g", *parts))
    assert sentence(before).startswith(
        "needs 8 whole cards, 5 free; "
        "2 of role worker must start together and 1 finds room; each needs 4 whole cards"
    )


def test_a_gang_that_has_not_had_its_turn_is_told_so() -> None:
    before = snapshot("8xH200", waiting("a", priority=100), gang("g", role("worker", whole(), 2)))
    ((key, said),) = cycle(before, 0, limit=1).rejections.items()
    assert (key.gang, said.dominant) == ("g", RejectionReason.BEHIND)


def test_a_card_that_the_plan_itself_shares_is_said_to_be_shared() -> None:
    asked = gang("g", role("member", whole(2), 2))
    small = waiting("small", want=shape(100), priority=100)
    plan = cycle(snapshot("2x2xL40S", small, asked), 0)
    assert [one.job for one in plan.placements] == ["small"]
    assert plan.rejections[asked.key].sentence.startswith(
        "needs 4 whole cards, 3 free and 1 shared (0.90 left);"
    )
