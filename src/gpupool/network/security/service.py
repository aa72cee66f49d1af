"""Security groups as the owners of their networks see them. Thread-safe.

A job in no group takes what its network carries to it. A job in groups takes what comes from
members of its groups, and what a rule of one of them takes; answers to what it asked for always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, StillInUse, TooManyNetworks, UnknownNetwork
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import Principal
from gpupool.network.addresses import parse_prefix
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.lookup import FindNetwork
from gpupool.network.quotas.check import refuse_above_quota
from gpupool.network.security.membership import find_group
from gpupool.network.security.reading import describe_groups
from gpupool.network.security.tables import security_groups, security_rules
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.security_groups import SecurityGroupIn, SecurityGroupOut, SecurityRuleIn

#: Groups of one network, and rules of one group, at most.
MOST_GROUPS = 64
MOST_RULES = 64


class SecurityGroupService:
    """Security groups of networks and their rules."""

    def __init__(
        self,
        store: Store,
        find_network: FindNetwork,
        count_submissions: Callable[[sa.Connection, int], Counter[int]],
    ) -> None:
        """Make the service.

        Args:
            count_submissions: counts the live submissions of a network that name a group, by its row id.
        """
        self._store = store
        self._find_network = find_network
        self._count_submissions = count_submissions

    def list_groups(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[SecurityGroupOut]:
        """List the groups of a network by name. Raises UnknownNetwork."""
        with self._store.read() as connection:
            return describe_groups(connection, self._find_network(connection, caller, name, tenant))

    def create_group(
        self, caller: Principal, name: str, body: SecurityGroupIn, tenant: str | None = None
    ) -> SecurityGroupOut:
        """Create a group without rules: its members reach each other.

        Raises:
            UnknownNetwork: `name` is no network of the caller.
            NameTaken: the network has a group of that name.
            TooManyNetworks: the network has as many as it may.
        """
        check_name(body.name, "name of a security group")
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            names = [one.name for one in describe_groups(write.connection, network)]
            if body.name in names:
                raise NameTaken(
                    f"network {network.name} already has a security group {body.name!r}",
                    hint=f"gpupool network group-list {network.name}",
                )
            _check_count(len(names), MOST_GROUPS, f"network {network.name} has", "security groups")
            refuse_above_quota(write.connection, network.tenant_id, "security_groups")
            write.insert(
                security_groups,
                public_id=new_id("g"),
                network_id=network.id,
                name=body.name,
                created_ns=write.now_ns,
            )
            out = _describe_one(write.connection, network, body.name)
            _finish(write, "created", network, body.name)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_group(
        self, caller: Principal, name: str, group: str, tenant: str | None = None
    ) -> None:
        """Delete a group. Raises StillInUse while jobs are in it or wait, or a rule names it."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = find_group(write.connection, network.id, network.name, group)
            self._refuse_used(write.connection, network, row)
            write.execute(security_rules.delete().where(security_rules.c.group_id == row.id))
            write.execute(security_groups.delete().where(security_groups.c.id == row.id))
            _finish(write, "deleted", network, row.name)
            write.answer(204, None)

    def create_rule(
        self,
        caller: Principal,
        name: str,
        group: str,
        body: SecurityRuleIn,
        tenant: str | None = None,
    ) -> SecurityGroupOut:
        """Let packets reach a group; in force within a second, for running jobs too. Idempotent.

        Raises:
            UnknownNetwork: there is no such network or group.
            BadAddress: the source is neither a prefix nor a group of the network.
            TooManyNetworks: the group has as many rules as it may.
        """
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = find_group(write.connection, network.id, network.name, group)
            columns = {
                "protocol": body.protocol,
                "first_port": body.first_port,
                "last_port": body.last_port if body.last_port is not None else body.first_port,
                **_find_source(write.connection, network, body.source),
            }
            if not _has_rule(write.connection, row.id, columns):
                out = _describe_one(write.connection, network, row.name)
                _check_count(len(out.rules), MOST_RULES, f"group {row.name} has", "rules")
                write.insert(security_rules, public_id=new_id("r"), group_id=row.id, **columns)
                _finish(write, "changed", network, row.name)
            out = _describe_one(write.connection, network, row.name)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_rule(
        self, caller: Principal, name: str, group: str, rule: str, tenant: str | None = None
    ) -> None:
        """Delete a rule of a group. Connections that it let in end. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = find_group(write.connection, network.id, network.name, group)
            ours = sa.and_(security_rules.c.group_id == row.id, security_rules.c.public_id == rule)
            if not write.execute(security_rules.delete().where(ours)).rowcount:
                raise UnknownNetwork(
                    f"security group {row.name} has no rule {rule[:80]!r}",
                    hint=f"gpupool network group-list {network.name}",
                )
            _finish(write, "changed", network, row.name)
            write.answer(204, None)

    def _refuse_used(self, connection: sa.Connection, network: Any, row: Any) -> None:
        jobs = _describe_one(connection, network, row.name).jobs
        submissions = self._count_submissions(connection, network.id)[row.id]
        if jobs or submissions:
            raise StillInUse(
                f"security group {row.name} is in use: {_count(jobs, 'job')} in it, "
                f"{_count(submissions, 'live submission')} for it",
                hint="gpupool ps",
                jobs=jobs,
                submissions=submissions,
            )
        naming = sa.select(security_groups.c.name).join(
            security_rules, security_rules.c.group_id == security_groups.c.id
        )
        others = sa.and_(security_rules.c.source_id == row.id, security_rules.c.group_id != row.id)
        names = sorted(set(connection.execute(naming.where(others)).scalars()))
        if names:
            raise StillInUse(
                f"rules of {', '.join(names)} name security group {row.name}",
                hint=f"delete them first: gpupool network group-list {network.name}",
            )


def _find_source(connection: sa.Connection, network: Any, source: str | None) -> dict[str, Any]:
    if source is None:
        return {"prefix": None, "source_id": None}
    if "/" in source:
        parse = ipv6.parse_prefix if ":" in source else parse_prefix
        return {"prefix": str(parse(source)), "source_id": None}
    return {
        "prefix": None,
        "source_id": find_group(connection, network.id, network.name, source).id,
    }


def _has_rule(connection: sa.Connection, group_id: int, columns: dict[str, Any]) -> bool:
    same = [security_rules.c[name].is_not_distinct_from(value) for name, value in columns.items()]
    query = sa.select(security_rules.c.id).where(security_rules.c.group_id == group_id, *same)
    return connection.execute(query).first() is not None


def _describe_one(connection: sa.Connection, network: Any, name: str) -> SecurityGroupOut:
    return next(one for one in describe_groups(connection, network) if one.name == name)


def _check_count(count: int, most: int, owner: str, what: str) -> None:
    if count >= most:
        raise TooManyNetworks(f"{owner} {count} {what}; {most} is the most", limit=most)


def _finish(write: WriteTransaction, what: str, network: Any, group: str) -> None:
    data = {"network": network.public_id, "group": group}
    write.event(f"network.group_{what}", network.name, tenant_id=network.tenant_id, data=data)
    write.announce(("network", network.id))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
