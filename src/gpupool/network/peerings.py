"""Peerings: links between networks of two owners, with the consent of both. Thread-safe.

A request names the other network by its id. It is taken whether a network of that id exists or not,
so a requester learns nothing of networks that are not its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import (
    NameTaken,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.base.ids import is_id, new_id
from gpupool.model.tenant import Principal
from gpupool.network.addresses import choose_number
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import LINK_NUMBERS
from gpupool.network.quotas.check import refuse_above_quota
from gpupool.network.routing.peered_prefixes import (
    is_agreed,
    list_peers,
    read_routed,
    refuse_overlap,
    refuse_two_ways,
)
from gpupool.network.tables import network_peerings, networks, subnets
from gpupool.network.zones.service import join_zones
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.tables import tenants
from gpupool.wire.network.networks import PeeringOut

_requester = networks.alias("requester")
_accepter = networks.alias("accepter")
_requester_tenant = tenants.alias("requester_tenant")
_accepter_tenant = tenants.alias("accepter_tenant")
_PEERINGS = (
    sa.select(
        network_peerings,
        _requester.c.public_id.label("requester_key"),
        _requester.c.name.label("requester_name"),
        _requester.c.tenant_id.label("requester_tenant_id"),
        _requester_tenant.c.name.label("requester_tenant"),
        _accepter.c.id.label("accepter_id"),
        sa.func.coalesce(_accepter.c.tenant_id == _requester.c.tenant_id, sa.false()).label(
            "is_own"
        ),
        _accepter.c.name.label("accepter_name"),
        _accepter.c.tenant_id.label("accepter_tenant_id"),
        _accepter_tenant.c.name.label("accepter_tenant"),
    )
    .join(_requester, _requester.c.id == network_peerings.c.requester_id)
    .join(_requester_tenant, _requester_tenant.c.id == _requester.c.tenant_id)
    .outerjoin(_accepter, _accepter.c.public_id == network_peerings.c.accepter)
    .outerjoin(_accepter_tenant, _accepter_tenant.c.id == _accepter.c.tenant_id)
    .order_by(network_peerings.c.id)
)


#: Peerings that one network asked for, at most; requests that no owner answers count too.
MOST_PEERINGS: Final = 64


class PeeringService:
    """Peerings as the owners of their networks see them."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_peerings(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[PeeringOut]:
        """List the peerings that a network asked for, and those that it is asked for."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            rows = connection.execute(_PEERINGS.where(_has_end(network))).all()
            return [_describe(connection, row, network) for row in rows]

    def request_peering(
        self, caller: Principal, name: str, accepter: str, tenant: str | None = None
    ) -> PeeringOut:
        """Ask the owner of another network for a peering.

        Raises:
            UnknownNetwork: `name` is no network of the caller, or `accepter` no id.
            NameTaken: it was asked for before, by one of the two.
            TooManyNetworks: the network, or its tenant, has asked for as many as it may.
        """
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            if not is_id(accepter) or accepter == network.public_id:
                raise UnknownNetwork(
                    f"{accepter[:80]!r} is not the id of another network",
                    hint="its owner finds the id: gpupool network list -o wide",
                )
            self._refuse_repeated(write.connection, network, accepter)
            _refuse_more(write.connection, network)
            refuse_above_quota(write.connection, network.tenant_id, "peerings")
            peering_id = write.insert(
                network_peerings,
                public_id=new_id("p"),
                requester_id=network.id,
                accepter=accepter,
                created_ns=write.now_ns,
            )
            row = write.execute(_PEERINGS.where(network_peerings.c.id == peering_id)).one()
            out = _describe(write.connection, row, network)
            _write_event(write, "requested", row)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def accept_peering(
        self, caller: Principal, name: str, peering: str, tenant: str | None = None
    ) -> PeeringOut:
        """Accept a peering that a network is asked for; packets pass from now on. Idempotent.

        What is accepted are the subnets that the other network has now. For those that it gets
        later, either side accepts again.

        Raises:
            UnknownNetwork: the network is asked for no such peering.
            OverlappingSubnets: the two share addresses, or one shares some with a network that the
                other one is peered with; `details` has the clashing prefixes.
            WrongState: the two are in different zones, and neither can move.
        """
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = _find_peering(write.connection, network, peering)
            if row.requester_id == network.id and row.accepted_ns is None:
                raise WrongState(
                    f"peering {peering} waits for the owner of the other network",
                    hint=f"its owner accepts it: gpupool network peering-accept NAME {peering}",
                )
            if row.accepted_ns is not None:
                _accept_new(write, network, row)
            else:
                refuse_overlap(write.connection, network.id, row.requester_id)
                refuse_two_ways(write.connection, network.id, row.requester_id)
                join_zones(write, network, row.requester_id)
                changed = network_peerings.update().where(network_peerings.c.id == row.id)
                link = _choose_link(write.connection, network, row)
                agreed = _list_keys(write.connection, (network.id, row.requester_id))
                values = {"accepted_ns": write.now_ns, "link": link, "agreed": agreed}
                write.execute(changed.values(**values))
                _write_event(write, "accepted", row)
                write.announce(("network", row.requester_id), ("network", network.id))
            row = _find_peering(write.connection, network, peering)
            out = _describe(write.connection, row, network)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def revoke_peering(
        self, caller: Principal, name: str, peering: str, tenant: str | None = None
    ) -> None:
        """End a peering, or a request for one, from either side. Packets pass no more."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = _find_peering(write.connection, network, peering)
            write.execute(network_peerings.delete().where(network_peerings.c.id == row.id))
            _write_event(write, "revoked", row)
            write.announce(("network", row.requester_id))
            if row.accepter_id is not None:
                write.announce(("network", row.accepter_id))
            write.answer(204, None)

    @staticmethod
    def _refuse_repeated(connection: sa.Connection, network: Any, accepter: str) -> None:
        asked = sa.and_(
            network_peerings.c.requester_id == network.id, network_peerings.c.accepter == accepter
        )
        is_asked = sa.and_(
            _requester.c.public_id == accepter, network_peerings.c.accepter == network.public_id
        )
        row = connection.execute(_PEERINGS.where(sa.or_(asked, is_asked))).first()
        if row is not None:
            raise NameTaken(
                f"there is a peering {row.public_id} of {network.name} and {accepter} already",
                hint=f"gpupool network peering-list {network.name}",
            )


def delete_peerings(write: WriteTransaction, network: Any) -> None:
    """End every peering of a network that is deleted, in the caller's transaction."""
    rows = write.execute(_PEERINGS.where(_has_end(network))).all()
    for row in rows:
        write.execute(network_peerings.delete().where(network_peerings.c.id == row.id))
        write.announce(("network", row.requester_id))
        if row.accepter_id is not None:
            write.announce(("network", row.accepter_id))


def list_peered_prefixes(connection: sa.Connection, network: Any) -> list[IPv4Network]:
    """List the IPv4 prefixes to which a network has routes over its peerings."""
    found = read_routed(connection, network.id, list_peers(connection, network.id))
    return [prefix for prefix in found if isinstance(prefix, IPv4Network)]


def list_peered_prefixes6(connection: sa.Connection, network: Any) -> list[IPv6Network]:
    """List the IPv6 prefixes to which a network has routes over its peerings."""
    found = read_routed(connection, network.id, list_peers(connection, network.id))
    return [prefix for prefix in found if isinstance(prefix, IPv6Network)]


def _has_end(network: Any) -> sa.ColumnElement[bool]:
    return sa.or_(
        network_peerings.c.requester_id == network.id,
        network_peerings.c.accepter == network.public_id,
    )


def _find_peering(connection: sa.Connection, network: Any, peering: str) -> Any:
    query = _PEERINGS.where(_has_end(network), network_peerings.c.public_id == peering)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise UnknownNetwork(
            f"network {network.name} has no peering {peering[:80]!r}",
            hint=f"gpupool network peering-list {network.name}",
        )
    return row


def _accept_new(write: WriteTransaction, network: Any, row: Any) -> None:
    """Agree to the subnets that the other network of a peering has got since."""
    other = row.requester_id if row.accepter_id == network.id else row.accepter_id
    theirs = _list_keys(write.connection, (other,))
    if row.is_own or set(theirs) <= set(row.agreed):
        return
    refuse_overlap(write.connection, network.id, other)
    refuse_two_ways(write.connection, network.id, other)
    # Of subnets that were deleted nothing stays.
    ours = set(_list_keys(write.connection, (network.id,)))
    agreed = [*theirs, *sorted(ours & set(row.agreed))]
    changed = network_peerings.update().where(network_peerings.c.id == row.id)
    write.execute(changed.values(agreed=agreed))
    _write_event(write, "accepted", row)
    write.announce(("network", row.requester_id), ("network", row.accepter_id))


def _list_keys(connection: sa.Connection, network_ids: Sequence[int]) -> list[str]:
    """List the public ids of the subnets of networks."""
    query = sa.select(subnets.c.public_id).where(subnets.c.network_id.in_(network_ids))
    return list(connection.execute(query.order_by(subnets.c.id)).scalars())


def _choose_link(connection: sa.Connection, network: Any, row: Any) -> int:
    """Choose a number for the link of a peering that no other link of the two networks has.

    A router with two links of one number would send the packets for one peer to the other one.
    """
    ends = (
        network_peerings.c.requester_id.in_((network.id, row.requester_id)),
        network_peerings.c.accepter.in_((network.public_id, row.requester_key)),
    )
    query = sa.select(network_peerings.c.link).where(
        sa.or_(*ends), network_peerings.c.link.is_not(None)
    )
    taken = set(connection.execute(query).scalars())
    number = choose_number(taken, LINK_NUMBERS)
    if number is None:
        raise TooManyNetworks(
            f"the two networks have {len(taken)} peerings, the most that routers can carry",
            hint=f"revoke one: gpupool network peering-list {network.name}",
            limit=len(taken),
        )
    return number


def _refuse_more(connection: sa.Connection, network: Any) -> None:
    ours = network_peerings.c.requester_id == network.id
    query = sa.select(sa.func.count()).select_from(network_peerings).where(ours)
    count = int(connection.execute(query).scalar_one())
    if count >= MOST_PEERINGS:
        raise TooManyNetworks(
            f"network {network.name} has asked for {count} peerings; {MOST_PEERINGS} is the most",
            hint=f"revoke one: gpupool network peering-list {network.name}",
            limit=MOST_PEERINGS,
        )


def _write_event(write: WriteTransaction, what: str, row: Any) -> None:
    """Write the event for each owner that may know of it."""
    owners = {row.requester_tenant_id, row.accepter_tenant_id} - {None}
    for tenant_id in sorted(owners):
        data = {"requester": row.requester_key, "accepter": row.accepter}
        write.event(f"network.peering_{what}", row.public_id, tenant_id=tenant_id, data=data)


def _describe(connection: sa.Connection, row: Any, network: Any) -> PeeringOut:
    is_requester = row.requester_id == network.id
    # The other owner's names are told once both have agreed; a requester has agreed by asking.
    is_known = not is_requester or row.accepted_ns is not None
    name, tenant, key, other = (
        (row.accepter_name, row.accepter_tenant, row.accepter, row.accepter_id)
        if is_requester
        else (row.requester_name, row.requester_tenant, row.requester_key, row.requester_id)
    )
    agreed = list[str]()
    new = list[str]()
    if is_known:
        agreed, new = _divide_prefixes(connection, other, row)
    _, hidden = _divide_prefixes(connection, network.id, row)
    return PeeringOut(
        id=row.public_id,
        state="requested" if row.accepted_ns is None else "accepted",
        network=network.name,
        is_requester=is_requester,
        other=key,
        other_name=name if is_known else None,
        other_tenant=tenant if is_known else None,
        other_prefixes=agreed,
        other_new_prefixes=new,
        own_new_prefixes=hidden,
        created_ns=row.created_ns,
        accepted_ns=row.accepted_ns,
    )


def _divide_prefixes(
    connection: sa.Connection, network_id: int, row: Any
) -> tuple[list[str], list[str]]:
    """Divide the prefixes of one side into those that packets reach, and those that were not agreed to.

    Of a peering that is only asked for, all are what the owner of the other side is asked.
    """
    query = sa.select(subnets).where(subnets.c.network_id == network_id).order_by(subnets.c.id)
    known = list[str]()
    new = list[str]()
    for subnet in connection.execute(query).all():
        is_known = row.accepted_ns is None or is_agreed(row, subnet.public_id)
        prefixes = known if is_known else new
        prefixes += [one for one in (subnet.cidr, subnet.cidr6) if one is not None]
    return known, new
