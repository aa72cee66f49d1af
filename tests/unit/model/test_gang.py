"""Roles and groups of a gang: their order, and how many members it needs."""

from __future__ import annotations

from gpupool.model.claim import Shape
from gpupool.model.gang import Gang, GangGroup, GangRole

WORKER = GangRole("worker", Shape(1000), minimum=2, desired=3)
SERVER = GangRole("ps", Shape(500), minimum=1, desired=1)
LAUNCHER = GangRole("mpi", Shape(0, None, 0), minimum=1, desired=1, launcher=True)
ROOT = GangGroup("all", (SERVER, GangGroup("rack", (GangGroup("node", (WORKER,)), LAUNCHER))))
MEMBERS = ("j0", "j1", "j2", "j3", "j4")


def test_roles_of_nested_groups_come_in_order() -> None:
    assert list(ROOT.iterate_roles()) == [SERVER, WORKER, LAUNCHER]


def test_minimum_of_a_gang_is_that_of_all_its_roles() -> None:
    assert Gang("g", ROOT, MEMBERS).minimum == 4


def test_members_are_roles_in_the_order_of_the_groups() -> None:
    gang = Gang("g", ROOT, MEMBERS)
    assert [gang.map_roles()[one].name for one in MEMBERS] == ["ps", *["worker"] * 3, "mpi"]
    assert gang.map_roles() is gang.map_roles()
