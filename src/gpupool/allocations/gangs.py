"""Gangs in the ledger: from a request to roles, from roles to a row and back, and what each member is told.

A gang is a row and the jobs that name it, numbered in the order of their roles. What keeps it whole is elsewhere:
the cycle places all or none, `ledger.grant` writes all or none, `progress` ends or requeues all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name
from gpupool.model.claim import ANYWHERE, Shape, Sharing, Within
from gpupool.model.gang import Gang, Group, Role
from gpupool.wire.jobs import GroupIn, RoleIn, WithinIn

MOST_MEMBERS = 10_000
MASTER_PORTS = range(20_000, 30_000)
"""Below the ports that the kernel gives out by itself. A gang's is its row's number modulo these: gangs that run at the
same time have different ones, nobody else is kept from using them."""
_DEEPEST = 8

Asked = tuple[RoleIn, Role]


def check_gang(asked: GroupIn, shape_of: Any, default: Shape) -> tuple[Group, list[RoleIn]]:
    """The gang's tree and its roles as they were asked for, in the same order. Raises BadOption, BadInput's classes.

    `shape_of` checks a role's shape; a role without one has `default`.
    """
    roles: list[RoleIn] = []
    group = _group(asked, shape_of, default, roles, 1)
    names = [role.name for role in group.roles()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadOption(f"two roles of the gang are called {twice}", hint="give each role a name of its own")
    members = sum(role.desired for role in group.roles())
    if members > MOST_MEMBERS:
        raise BadOption(f"a gang of {members} members", hint=f"at most {MOST_MEMBERS}")
    if all(role.launcher for role in group.roles()):
        raise BadOption("every role of the gang is a launcher", hint="a launcher starts when other roles run")
    return group, roles


def _group(asked: GroupIn, shape_of: Any, default: Shape, roles: list[RoleIn], depth: int) -> Group:
    if depth > _DEEPEST:
        raise BadOption(f"the gang's groups are nested deeper than {_DEEPEST}", hint="put roles into fewer groups")
    parts: list[Role | Group] = []
    for part in asked.parts:
        if isinstance(part, RoleIn):
            roles.append(part)
            parts.append(_role(part, shape_of(part.shape) if part.shape else default))
        else:
            parts.append(_group(part, shape_of, default, roles, depth + 1))
    return Group(check_name(asked.name, "group"), tuple(parts), within_of(asked.within))


def _role(asked: RoleIn, shape: Shape) -> Role:
    minimum = asked.count if asked.minimum is None else asked.minimum
    if minimum > asked.count:
        raise BadOption(f"role {asked.name}: {minimum} of {asked.count} members", hint="the minimum is at most all")
    return Role(check_name(asked.name, "role"), shape, minimum, asked.count, asked.launcher)


def within_of(asked: WithinIn | None) -> Within:
    return ANYWHERE if asked is None else Within(asked.required, asked.preferred)


def within_out(required: str | None, preferred: str | None) -> WithinIn | None:
    return WithinIn(required=required, preferred=preferred) if required or preferred else None


# In the ledger --------------------------------------------------------------------------------------------


def to_json(group: Group) -> dict[str, Any]:
    """What the gang's row keeps; shapes are those of its members' claims."""
    parts = [
        to_json(part)
        if isinstance(part, Group)
        else {"role": part.name, "minimum": part.minimum, "desired": part.desired, "launcher": part.launcher}
        for part in group.parts
    ]
    return {"group": group.name, "within": [group.within.required, group.within.preferred], "parts": parts}


def from_json(spec: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Group:
    """What `to_json` wrote, with the shape of each role's claim by the role's name."""
    parts: list[Role | Group] = []
    for part in spec["parts"]:
        if "group" in part:
            parts.append(from_json(part, shapes))
        else:
            role = part["role"]
            parts.append(Role(role, shapes[role], part["minimum"], part["desired"], part["launcher"]))
    return Group(spec["group"], tuple(parts), Within(*spec["within"]))


def least_members(spec: Mapping[str, Any]) -> dict[str, int]:
    """Of what `to_json` wrote, how many members of each role the gang needs."""
    found = dict[str, int]()
    for part in spec["parts"]:
        found |= least_members(part) if "group" in part else {part["role"]: part["minimum"]}
    return found


def ranked(group: Group) -> Iterator[tuple[int, Role]]:
    """Every member's role by its rank."""
    return enumerate(role for role in group.roles() for _ in range(role.desired))


def gang_of(public_id: str, spec: Mapping[str, Any], members: Sequence[str], shapes: Mapping[str, Shape]) -> Gang:
    return Gang(public_id, from_json(spec, shapes), tuple(members))


def shape_of(row: Any) -> Shape:
    """The shape in a row of `claims`."""
    return Shape(
        row.gpu_milli,
        row.memory_bytes,
        row.cards,
        row.model,
        tuple(sorted(row.labels.items())),
        Sharing(row.sharing),
        row.cpu_milli,
        row.host_bytes,
        Within(row.within_required, row.within_preferred),
        row.profile,
    )


def shape_columns(shape: Shape) -> dict[str, Any]:
    """The shape as columns of `claims`."""
    return {
        "gpu_milli": shape.gpu_milli,
        "memory_bytes": shape.memory_bytes,
        "cards": shape.count,
        "model": shape.model,
        "labels": dict(shape.labels),
        "sharing": shape.sharing,
        "cpu_milli": shape.cpu_milli,
        "host_bytes": shape.host_bytes,
        "within_required": shape.within.required,
        "within_preferred": shape.within.preferred,
        "profile": shape.profile,
    }


# What a member is told ------------------------------------------------------------------------------------


class Meeting:
    """How the members of one gang find each other, worked out once for all of them.

    `members` are those that hold cards now, in the order of their rank: rows with gang_rank, launcher, cards, node and
    agent. `hostnames` are those of nodes that told theirs, by the node's name.
    """

    def __init__(self, gang: Any, members: Iterable[Any], hostnames: Mapping[str, str]) -> None:
        placed = list(members)
        workers = [member for member in placed if not member.launcher]
        one_host = len({member.agent for member in placed}) == 1
        hosts = ["127.0.0.1" if one_host else hostnames.get(member.node) or member.node for member in workers]
        self._common = {
            "GPUPOOL_GANG": gang.name,
            "GPUPOOL_GANG_SIZE": str(len(workers)),
            "GPUPOOL_GANG_HOSTS": ",".join(hosts),
            "MASTER_ADDR": hosts[0] if hosts else "127.0.0.1",
            "MASTER_PORT": str(MASTER_PORTS[gang.id % len(MASTER_PORTS)]),
        }
        one_card = all(worker.cards == 1 for worker in workers)
        self._number = {worker.gang_rank: n for n, worker in enumerate(workers)} if one_card else {}

    def environment(self, me: Any) -> dict[str, str]:
        """A member's variables: a row with gang_rank and gang_role.

        RANK and WORLD_SIZE are set as torchrun sets them for a process, so only where each worker has one card; with
        several, torchrun makes one process for each.
        """
        told = {**self._common, "GPUPOOL_GANG_RANK": str(me.gang_rank), "GPUPOOL_GANG_ROLE": me.gang_role}
        number = self._number.get(me.gang_rank)
        if number is not None:
            world = str(len(self._number))
            told |= {"RANK": str(number), "WORLD_SIZE": world, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        return told
