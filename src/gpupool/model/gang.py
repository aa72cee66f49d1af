"""Members that start together or not at all.

A gang is a tree: roles (members of one shape) in groups, groups in groups. Each group may ask how
near together what is in it has to be. What a gang is lives here; whether it can start is
scheduling's to say, and how its members find each other the agent's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint

#: The role of every member of a gang without named roles.
MEMBER = "member"


@dataclass(frozen=True)
class GangRole:
    """`desired` members of one shape, of which at least `minimum` start together; more may join
    later.

    A `launcher` is started when the other roles run, as MPI's launcher expects; its place is held
    from the start.
    """

    name: str
    shape: Shape
    minimum: int
    desired: int
    launcher: bool = False


@dataclass(frozen=True)
class GangGroup:
    """Roles and groups that belong together, at most so far apart."""

    name: str
    parts: tuple[GangRole | GangGroup, ...]
    within: TopologyConstraint = ANYWHERE

    def iterate_roles(self) -> Iterator[GangRole]:
        """Every role below, in order: the order in which members are numbered."""
        for part in self.parts:
            if isinstance(part, GangRole):
                yield part
            else:
                yield from part.iterate_roles()


@dataclass(frozen=True)
class Gang:
    """`members` are job ids, `desired` of each role in the order of `root.iterate_roles()`."""

    id: str
    root: GangGroup
    members: tuple[str, ...]

    @property
    def minimum(self) -> int:
        return sum(role.minimum for role in self.root.iterate_roles())

    def map_roles(self) -> Mapping[str, GangRole]:
        """By member."""
        return self._roles

    @cached_property
    def _roles(self) -> Mapping[str, GangRole]:
        # Asked for each member that is placed: a gang of 10,000 would be walked 10,000 times.
        ordered = iter(self.members)
        found = {}
        for role in self.root.iterate_roles():
            for _ in range(role.desired):
                found[next(ordered)] = role
        return found
