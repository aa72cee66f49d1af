"""The boundary's rules as admins write them and tenants see them. Thread-safe."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, TooManyNetworks, UnknownNetwork
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.addresses import parse_prefix
from gpupool.network.engine_row import renew_work
from gpupool.network.firewall.reading import describe_rules
from gpupool.network.firewall.tables import firewall_rules
from gpupool.network.ipv6.addresses import parse_prefix as parse_prefix6
from gpupool.network.lookup import FindNetwork
from gpupool.network.tables import networks
from gpupool.store.database import Store
from gpupool.tenancy.access import match_visible
from gpupool.wire.network.firewall import FirewallRuleIn, FirewallRuleOut

#: Rules of one pool: every packet to and from outside passes them.
MOST_RULES: Final = 256
#: Between the numbers of rules without one, so that others find room.
_STEP: Final = 10
_HIGHEST: Final = 9999


class FirewallService:
    """The firewall at the boundary of the pool."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_rules(self, caller: Principal) -> list[FirewallRuleOut]:
        """List the rules in their order: those of other tenants' networks for an admin alone."""
        with self._store.read() as connection:
            return describe_rules(connection, match_visible(caller, networks.c.tenant_id))

    def create_rule(self, caller: Principal, body: FirewallRuleIn) -> FirewallRuleOut:
        """Write a rule. Connections that it denies end, also those that are open.

        Raises:
            BadAddress: `prefix` is no prefix.
            UnknownNetwork: there is no such network.
            NameTaken: another rule has the number.
            TooManyNetworks: the pool has as many rules as it may.
        """
        is_ipv6 = ":" in body.prefix
        prefix = parse_prefix6(body.prefix) if is_ipv6 else parse_prefix(body.prefix)
        with self._store.write() as write:
            network_id = None
            if body.network is not None:
                found = self._find_network(write.connection, caller, body.network, body.tenant)
                network_id = found.id
            key = new_id("w")
            write.insert(
                firewall_rules,
                public_id=key,
                number=_choose_number(write.connection, body.number),
                action=body.action,
                direction=body.direction,
                prefix=str(prefix),
                protocol=body.protocol,
                first_port=body.first_port,
                last_port=body.first_port if body.last_port is None else body.last_port,
                network_id=network_id,
                created_ns=write.now_ns,
            )
            renew_work(write)
            # The management plane of tenants is in force or not.
            write.announce("fleet")
            write.event("network.firewall_rule_created", key)
            shown = describe_rules(write.connection, sa.true())
            out = next(one for one in shown if one.id == key)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_rule(self, rule: str) -> None:
        """Delete a rule. Raises UnknownNetwork."""
        with self._store.write() as write:
            ours = firewall_rules.c.public_id == rule
            if not write.execute(firewall_rules.delete().where(ours)).rowcount:
                raise UnknownNetwork(
                    f"no firewall rule {rule[:80]!r}", hint="gpupool network firewall-list"
                )
            renew_work(write)
            # The management plane of tenants is in force or not.
            write.announce("fleet")
            write.event("network.firewall_rule_deleted", rule)
            write.answer(204, None)


def _choose_number(connection: sa.Connection, wanted: int | None) -> int:
    used = set(connection.execute(sa.select(firewall_rules.c.number)).scalars())
    if len(used) >= MOST_RULES:
        raise TooManyNetworks(
            f"the pool has {len(used)} firewall rules; {MOST_RULES} is the most",
            hint="gpupool network firewall-list",
            limit=MOST_RULES,
        )
    if wanted is None:
        last = max(used, default=0)
        wanted = last + _STEP
        if wanted > _HIGHEST:
            raise NameTaken(
                f"the last rule has number {last}, and {_HIGHEST} is the highest",
                hint="choose a free one with --number",
            )
    elif wanted in used:
        raise NameTaken(
            f"another firewall rule has number {wanted}", hint="gpupool network firewall-list"
        )
    return wanted
