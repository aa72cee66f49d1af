from __future__ import annotations

from gpupool.model.claim import Shape
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.claims import WaitingClass
from tests.support.partition_builders import (
    part,
    pool,
    starts,
    with_jobs,
)


def gang(*roles: GangRole) -> WaitingClass:
    members = tuple(f"m{n}" for n in range(sum(role.desired for role in roles)))
    one = Gang("g", GangGroup("g", roles), members)
    return WaitingClass("nlp", 0, roles[0].shape, members, len(members), 0, gang=one)


def test_a_gang_of_partitions_starts_with_all_of_its_pieces_or_with_none() -> None:
    roles = GangRole("big", part("4g.71gb"), 2, 2), GangRole("small", part("1g.18gb"), 6, 6)
    assert len(starts(cycle(with_jobs(pool("2xH200:mig"), [], gang(*roles)), 0))) == 8
    too_many = GangRole("big", part("4g.71gb"), 2, 2), GangRole("small", part("1g.18gb"), 7, 7)
    plan = cycle(with_jobs(pool("2xH200:mig"), [], gang(*too_many)), 0)
    assert plan.placements == ()
    assert [said.dominant for said in plan.rejections.values()] != [None]


def test_a_gang_may_have_shares_on_some_cards_and_partitions_on_others() -> None:
    roles = GangRole("head", Shape(500), 1, 1), GangRole("part", part("3g.71gb"), 2, 2)
    plan = cycle(with_jobs(pool("1xH200:mig+1xH200"), [], gang(*roles)), 0)
    assert {one.seats[0].device for one in plan.placements} == {"sim-0:0", "sim-0:1"}
