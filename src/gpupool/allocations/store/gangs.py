"""Gangs in the ledger: checks a request, encodes roles for a row, and builds members' environments.

A gang is a row and the jobs that name it, numbered in the order of their roles. Other modules keep
it whole: the cycle places all or none, `ledger.grants` writes all or none, `ledger.gang_lifecycle`
ends or requeues all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name
from gpupool.model.claim import ANYWHERE, Shape, SharingKind, TopologyConstraint
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.model.isolation.claim_needs import read_needs
from gpupool.wire.submissions import GroupIn, RoleIn, WithinIn

#: Members of one gang at most.
MOST_MEMBERS = 10_000
#: Ports for MASTER_PORT, below those that the kernel gives out by itself. A gang gets the one at
#: its row id modulo their number, so that gangs that run at the same time have different ones. No
#: other program is kept from using them.
MASTER_PORTS = range(20_000, 30_000)
#: Levels of groups below one another at most: the tree is walked by recursion.
_DEEPEST = 8


def check_gang(asked: GroupIn, shape_of: Any, default: Shape) -> tuple[GangGroup, list[RoleIn]]:
    """Check a gang's tree and build it, with its roles in the order of the request.

    Args:
        asked: The request.
        shape_of: Checks the shape of a role.
        default: The shape of roles without one.

    Raises:
        BadInput: The gang or a shape is not valid.
    """
    roles: list[RoleIn] = []
    group = _check_group(asked, shape_of, default, roles, 1)
    names = set[str]()
    for role in group.iterate_roles():
        # The name is the key of a role in the row, in commands and in members' environments.
        if role.name in names:
            raise BadOption(
                f"two roles of the gang are called {role.name}",
                hint="give each role a name of its own",
            )
        names.add(role.name)
    members = sum(role.desired for role in group.iterate_roles())
    if members > MOST_MEMBERS:
        raise BadOption(f"a gang of {members} members", hint=f"at most {MOST_MEMBERS}")
    if all(role.launcher for role in group.iterate_roles()):
        raise BadOption(
            "every role of the gang is a launcher", hint="a launcher starts when other roles run"
        )
    return group, roles


def _check_group(
    asked: GroupIn, shape_of: Any, default: Shape, roles: list[RoleIn], depth: int
) -> GangGroup:
    if depth > _DEEPEST:
        raise BadOption(
            f"the gang's groups are nested deeper than {_DEEPEST}",
            hint="put roles into fewer groups",
        )
    parts: list[GangRole | GangGroup] = []
    for part in asked.parts:
        if isinstance(part, RoleIn):
            roles.append(part)
            shape = shape_of(part.shape) if part.shape else default
            parts.append(_check_role(part, shape))
        else:
            parts.append(_check_group(part, shape_of, default, roles, depth + 1))
    return GangGroup(check_name(asked.name, "group"), tuple(parts), build_within(asked.within))


def _check_role(asked: RoleIn, shape: Shape) -> GangRole:
    # Without a minimum the role starts and stays whole.
    minimum = asked.count if asked.minimum is None else asked.minimum
    if minimum > asked.count:
        raise BadOption(
            f"role {asked.name}: {minimum} of {asked.count} members",
            hint="the minimum is at most all",
        )
    return GangRole(check_name(asked.name, "role"), shape, minimum, asked.count, asked.launcher)


def build_within(asked: WithinIn | None) -> TopologyConstraint:
    """Build the topology levels of a request; none without them."""
    return ANYWHERE if asked is None else TopologyConstraint(asked.required, asked.preferred)


def describe_within(required: str | None, preferred: str | None) -> WithinIn | None:
    """Return the topology levels of a claim as answers show them; None without any."""
    return WithinIn(required=required, preferred=preferred) if required or preferred else None


# Rows of the ledger ------------------------------------------------------------------------------


def encode_gang(group: GangGroup) -> dict[str, Any]:
    """Encode the gang's tree for its row; shapes are those of its members' claims."""
    parts = list[dict[str, Any]]()
    for part in group.parts:
        if isinstance(part, GangGroup):
            parts.append(encode_gang(part))
            continue
        role = {
            "role": part.name,
            "minimum": part.minimum,
            "desired": part.desired,
            "launcher": part.launcher,
        }
        parts.append(role)
    return {
        "group": group.name,
        "within": [group.within.required, group.within.preferred],
        "parts": parts,
    }


def decode_gang(spec: Mapping[str, Any], shapes: Mapping[str, Shape]) -> GangGroup:
    """Decode what `encode_gang` wrote, with the shape of each role's claim."""
    parts: list[GangRole | GangGroup] = []
    for part in spec["parts"]:
        if "group" in part:
            parts.append(decode_gang(part, shapes))
        else:
            role = part["role"]
            parts.append(
                GangRole(role, shapes[role], part["minimum"], part["desired"], part["launcher"])
            )
    return GangGroup(spec["group"], tuple(parts), TopologyConstraint(*spec["within"]))


def read_least_members(spec: Mapping[str, Any]) -> dict[str, int]:
    """Read how many members of each role the gang needs."""
    found = dict[str, int]()
    for part in spec["parts"]:
        if "group" in part:
            found |= read_least_members(part)
        else:
            found[part["role"]] = part["minimum"]
    return found


def build_gang(
    public_id: str, spec: Mapping[str, Any], members: Sequence[str], shapes: Mapping[str, Shape]
) -> Gang:
    """Build a gang from its row, its members by rank, and the shapes of its roles."""
    return Gang(public_id, decode_gang(spec, shapes), tuple(members))


def read_shape(row: Any) -> Shape:
    """Read the shape in a row of `claims`."""
    return Shape(
        row.gpu_milli,
        row.memory_bytes,
        row.cards,
        row.model,
        tuple(sorted(row.labels.items())),
        SharingKind(row.sharing),
        row.cpu_milli,
        row.host_bytes,
        TopologyConstraint(row.within_required, row.within_preferred),
        row.profile,
        needs=read_needs(row.needs),
        owner=row.owner or "",
        names_sharing=row.names_sharing,
    )


def build_shape_columns(shape: Shape) -> dict[str, Any]:
    """Build the columns of `claims` for a shape."""
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
        # None and not JSON's null, so that old and new rows without needs are alike.
        "needs": shape.needs.write() or None,
        "owner": shape.owner or None,
        "names_sharing": shape.names_sharing,
    }


# Environments of members -------------------------------------------------------------------------


class GangRendezvous:
    """How the members of one gang find each other, worked out once for all of them.

    `members` are those that hold cards now, in the order of their rank: rows with gang_rank,
    launcher, cards, node, agent and dns_name. `hostnames` are those that agents have reported, by the node's
    name.
    """

    def __init__(self, gang: Any, members: Iterable[Any], hostnames: Mapping[str, str]) -> None:
        placed = list(members)
        workers = [member for member in placed if not member.launcher]
        # Members of one agent are on one host. There the loopback address always works, also where
        # the host's own name does not resolve.
        one_host = len({member.agent for member in placed}) == 1
        hosts = list[str]()
        for worker in workers:
            host = "127.0.0.1" if one_host else hostnames.get(worker.node) or worker.node
            # In a network members are apart even on one host, and find each other by name there.
            hosts.append(worker.dns_name or host)
        self._common = {
            "GPUPOOL_GANG": gang.name,
            "GPUPOOL_GANG_SIZE": str(len(workers)),
            "GPUPOOL_GANG_HOSTS": ",".join(hosts),
            "GPUPOOL_GANG_SLOTS": ",".join(str(worker.cards) for worker in workers),
            "MASTER_ADDR": hosts[0] if hosts else "127.0.0.1",
            "MASTER_PORT": str(MASTER_PORTS[gang.id % len(MASTER_PORTS)]),
        }
        # RANK counts workers only: a launcher takes no part in the collective.
        self._number = dict[int, int]()
        if all(worker.cards == 1 for worker in workers):
            for number, worker in enumerate(workers):
                self._number[worker.gang_rank] = number

    def build_environment(self, me: Any) -> dict[str, str]:
        """Build a member's environment variables from its row.

        RANK and WORLD_SIZE are set as torchrun sets them for a process, so only if each worker has
        one card; with several, torchrun makes one process per card.
        """
        variables = {
            **self._common,
            "GPUPOOL_GANG_RANK": str(me.gang_rank),
            "GPUPOOL_GANG_ROLE": me.gang_role,
        }
        number = self._number.get(me.gang_rank)
        if number is not None:
            # A member sees its own card alone, so its local rank is always 0.
            variables |= {
                "RANK": str(number),
                "WORLD_SIZE": str(len(self._number)),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
            }
        return variables
