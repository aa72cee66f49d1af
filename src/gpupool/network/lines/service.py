"""Dedicated lines as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, TooManyNetworks, UnknownNetwork, WrongState
from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.network.addresses import check_overlap
from gpupool.network.engine_row import renew_work, require_ready
from gpupool.network.lines.checks import (
    check_announced,
    check_apart,
    check_seen,
    check_usable,
    parse_line,
)
from gpupool.network.lines.model import Line
from gpupool.network.lines.opening import read_opening
from gpupool.network.lines.reading import describe_lines, list_line_prefixes, read_lines
from gpupool.network.lines.tables import line_translations, network_lines
from gpupool.network.lines.translation import check_origins
from gpupool.network.lookup import FindNetwork
from gpupool.network.peerings import list_peered_prefixes
from gpupool.network.quotas.check import refuse_above_quota
from gpupool.network.routing.peered_prefixes import list_peers
from gpupool.network.tables import subnets
from gpupool.network.zones.service import require_first_zone
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.lines import LineIn, LineOut

#: Lines of one network at most.
MOST_LINES = 4


class LineService:
    """Dedicated lines of networks."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_lines(self, caller: Principal, name: str, tenant: str | None = None) -> list[LineOut]:
        """List the lines of a network by VLAN. Raises UnknownNetwork."""
        with self._store.read() as connection:
            return describe_lines(connection, self._find_network(connection, caller, name, tenant))

    def get_line(
        self, caller: Principal, name: str, line: str, tenant: str | None = None
    ) -> LineOut:
        """Return a line with what its peer announces. Raises UnknownNetwork."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            return _find_line(connection, network, line)

    def create_line(
        self, caller: Principal, name: str, body: LineIn, tenant: str | None = None
    ) -> LineOut:
        """Create a line; its session comes up by itself once the peer answers.

        Raises:
            UnknownNetwork: `name` is no network of the caller.
            NetworkingUnavailable: networking is off, or its engine cannot work.
            WrongState: no interface is open for lines, the VLAN is not for tenants, or the network
                is not in zone 0.
            NameTaken: another line has the VLAN.
            TooManyNetworks: the network has as many lines as it may.
            BadAddress: of an address, a prefix or an AS number.
            OverlappingSubnets: the line shares addresses; `details` has the clashing prefixes.
            SecretKeyMissing: the TCP MD5 key cannot be encrypted; others of `SECRET_ERRORS` too.
        """
        key = new_id("l")
        line = parse_line(key, body)
        outside = [one.outside for one in line.translations]
        check_usable((line.link, *line.allowed, *line.seen_allowed, *outside))
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            require_ready(write.connection)
            require_first_zone(network, "dedicated lines")
            _refuse_vlan(write.connection, body.vlan)
            _refuse_more(write.connection, network)
            refuse_above_quota(write.connection, network.tenant_id, "lines")
            present = _list_present(write.connection, network)
            check_apart((line.link, *line.seen_allowed, *outside), present)
            subnets_here = list(map(IPv4Network, _list_subnets(write.connection, network.id)))
            inside = [one.inside for one in line.translations]
            check_origins(inside, subnets_here, "--translate", f"the subnets of {network.name}")
            check_seen(subnets_here, line)
            if body.announced is not None:
                check_announced(body.announced, _list_subnets(write.connection, network.id))
            column = network_lines.c.secret_key
            secret_key = self._store.secrets.encrypt(write, column, key, body.key or "")
            line_id = write.insert(
                network_lines,
                public_id=key,
                network_id=network.id,
                vlan=line.vlan,
                address=str(line.address),
                speaker=str(line.speaker),
                peer=str(line.peer),
                asn=body.asn,
                peer_asn=body.peer_asn,
                secret_key=secret_key or None,
                bfd=body.bfd,
                mtu=line.mtu,
                prefix_limit=line.prefix_limit,
                allowed=[str(prefix) for prefix in line.allowed],
                announced=body.announced,
                created_ns=write.now_ns,
                state="starting",
                reason="",
                learned=[],
                refused=[],
                refused_count=0,
            )
            _insert_translations(write, line_id, line)
            out = _find_line(write.connection, network, key)
            _finish(write, "created", network, key, line.vlan)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_line(
        self, caller: Principal, name: str, line: str, tenant: str | None = None
    ) -> None:
        """Delete a line: its session and its routes end. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            found = _find_line(write.connection, network, line)
            ours = sa.select(network_lines.c.id).where(network_lines.c.public_id == found.id)
            _delete_translations(write, ours)
            write.execute(network_lines.delete().where(network_lines.c.public_id == found.id))
            _finish(write, "deleted", network, found.id, found.vlan)
            write.answer(204, None)


def delete_lines(write: WriteTransaction, network: Any) -> None:
    """Delete every line of a network that is deleted, in the caller's transaction."""
    mine = network_lines.c.network_id == network.id
    _delete_translations(write, sa.select(network_lines.c.id).where(mine))
    ours = network_lines.delete().where(mine)
    if write.execute(ours.returning(network_lines.c.id)).all():
        renew_work(write)


def note_subnet(write: WriteTransaction, network: Any, added: IPv4Network | None = None) -> None:
    """Let lines and the gateway of a network learn its subnets, in the caller's transaction.

    Raises OverlappingSubnets where a new subnet shares addresses with a line of the network, or of
    a peered one.
    """
    ours = list_line_prefixes(write.connection, network.id)
    others = list_peers(write.connection, network.id)
    theirs = list[IPv4Network]()
    for other in others:
        theirs += list_line_prefixes(write.connection, other)
    if added is not None:
        check_overlap(added, (*ours, *theirs), "a dedicated line")
        for line in read_lines(write.connection, [network.id])[network.id]:
            check_seen([added], line)
    # A gateway carries IPv6 for subnets that have it.
    if ours or network.has_gateway:
        renew_work(write)


def _insert_translations(write: WriteTransaction, line_id: int, line: Line) -> None:
    for is_peer, translations in ((False, line.translations), (True, line.peer_translations)):
        for one in translations:
            write.insert(
                line_translations,
                line_id=line_id,
                is_peer=is_peer,
                inside=str(one.inside),
                outside=str(one.outside),
            )


def _delete_translations(write: WriteTransaction, lines: sa.Select[Any]) -> None:
    write.execute(line_translations.delete().where(line_translations.c.line_id.in_(lines)))


def _refuse_vlan(connection: sa.Connection, vlan: int) -> None:
    interface, opened = read_opening(connection)
    if not interface or not opened:
        raise WrongState(
            "no interface of the pool's machine is open for dedicated lines",
            hint="an admin opens one: gpupool network enable --line-interface eth1 "
            "--line-vlans 200-299",
        )
    if vlan not in opened:
        raise WrongState(
            f"VLAN {vlan} is not for tenants; {opened[0]}-{opened[-1]} are",
            hint="an admin opens more: gpupool network enable --line-vlans FIRST-LAST",
        )
    query = sa.select(network_lines.c.id).where(network_lines.c.vlan == vlan)
    if connection.execute(query).first() is not None:
        # Another tenant's line is not named.
        raise NameTaken(
            f"VLAN {vlan} is taken by another line", hint="an admin says which one is yours"
        )


def _refuse_more(connection: sa.Connection, network: Any) -> None:
    count = len(describe_lines(connection, network))
    if count >= MOST_LINES:
        raise TooManyNetworks(
            f"network {network.name} has {count} lines; {MOST_LINES} is the most",
            hint=f"delete one: gpupool network line-list {network.name}",
            limit=MOST_LINES,
        )


def _list_present(connection: sa.Connection, network: Any) -> list[tuple[str, IPv4Network]]:
    """List the prefixes that a new line of a network must not have."""
    found = [
        (f"network {network.name}", IPv4Network(cidr))
        for cidr in _list_subnets(connection, network.id)
    ]
    peered = list_peered_prefixes(connection, network)
    found += [("a peered network", prefix) for prefix in peered]
    lines = list_line_prefixes(connection, network.id)
    found += [("another line", prefix) for prefix in lines]
    return found


def _list_subnets(connection: sa.Connection, network_id: int) -> list[str]:
    query = sa.select(subnets.c.cidr).where(subnets.c.network_id == network_id)
    return list(connection.execute(query).scalars())


def _find_line(connection: sa.Connection, network: Any, line: str) -> LineOut:
    for found in describe_lines(connection, network):
        if found.id == line:
            return found
    raise UnknownNetwork(
        f"network {network.name} has no dedicated line {line[:80]!r}",
        hint=f"gpupool network line-list {network.name}",
    )


def _finish(write: WriteTransaction, what: str, network: Any, line: str, vlan: int) -> None:
    data = {"network": network.name, "vlan": vlan}
    write.event(f"network.line_{what}", line, tenant_id=network.tenant_id, data=data)
    renew_work(write)
    write.announce(("network", network.id))
