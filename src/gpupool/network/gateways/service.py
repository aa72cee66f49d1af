"""The pair of gateways as admins see it. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadAddress, NetworkingUnavailable, UnknownNetwork, WrongState
from gpupool.network.balancing.standbys import add_standbys, remove_standbys
from gpupool.network.engine_row import read_engine_row, renew_machines, require_ready
from gpupool.network.external.membership import require_own_databases
from gpupool.network.floating.tables import floating_ips
from gpupool.network.gateways.reading import describe_pair, read_members, read_pair_row
from gpupool.network.gateways.tables import network_gateway_pair, network_gateways
from gpupool.network.lookup import CountJobs
from gpupool.network.machines.service import find_machine, read_machines
from gpupool.network.tables import network_engine, networks
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.gateways import GatewayPairIn, GatewayPairOut

#: No network has this row id: the reconciler compares the pair's rows then.
PAIR_TOPIC = ("network", 0)


class GatewayPairService:
    """The machines that serve gateways: the centre, or a pair that an admin names."""

    def __init__(
        self, store: Store, is_silent: Callable[[str], bool], count_jobs: CountJobs
    ) -> None:
        """Make the service.

        Args:
            is_silent: whether an agent has missed its heartbeats.
        """
        self._store = store
        self._count_jobs = count_jobs
        self._is_silent = is_silent

    def get_pair(self) -> GatewayPairOut:
        """Return the pair. Raises UnknownNetwork where gateways are on one machine."""
        with self._store.read() as connection:
            return self._describe(connection)

    def set_pair(self, body: GatewayPairIn) -> GatewayPairOut:
        """Put all gateways on two machines. The same again changes nothing.

        Gateways that exist move to them; their connections end.

        Raises:
            NetworkingUnavailable: networking is off, or a node is no machine of it.
            BadAddress: `address` or `upstream` is no address of a machine outside, or a job has it
                as its floating IP.
            WrongState: both nodes are the same, or another pair has the gateways.
        """
        address = _parse_address(body.address, "address")
        upstream = None if body.upstream is None else _parse_address(body.upstream, "upstream")
        if address == upstream:
            raise BadAddress(f"{address} cannot be the address and the upstream of gateways")
        with self._store.write() as write:
            require_ready(write.connection)
            require_own_databases(
                write.connection, "a pair of gateways sets BFD timers for the whole OVN"
            )
            self._check_nodes(write.connection, body.nodes)
            _refuse_floating(write.connection, address, upstream)
            before = read_pair_row(write.connection)
            nodes = [member.agent for member in read_members(write.connection)]
            if before is not None and nodes != body.nodes:
                raise WrongState(
                    f"gateways are on {' and '.join(nodes)}",
                    hint="gpupool network gateway-unpair, then again",
                )
            settings = {
                "address": str(address),
                "upstream": None if upstream is None else str(upstream),
            }
            if before is None:
                _insert_pair(write, body.nodes, settings)
                # The prefix is the pair's from now on.
                write.execute(network_engine.update().values(uplink=""))
                write.event("network.gateways_paired", body.nodes[0], data={"nodes": body.nodes})
            elif any(getattr(before, name) != value for name, value in settings.items()):
                write.execute(network_gateway_pair.update().values(**settings))
                write.event("network.gateways_changed", body.nodes[0], data=settings)
            # Also again: a subnet that was full may have an address by now.
            add_standbys(write, self._count_jobs)
            _announce(write)
            out = self._describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete_pair(self) -> None:
        """Put all gateways on the centre again; their connections end. Idempotent."""
        with self._store.write() as write:
            if read_pair_row(write.connection) is not None:
                write.execute(network_gateway_pair.delete())
                write.execute(network_gateways.delete())
                write.execute(network_engine.update().values(uplink=""))
                remove_standbys(write)
                write.event("network.gateways_unpaired", "")
                _announce(write)
            write.answer(204, None)

    def set_drain(self, node: str, *, wanted: bool) -> GatewayPairOut:
        """Keep gateways away from a machine of the pair, or no longer. Idempotent.

        An active machine gives them to the other one; open connections go on where the connection
        table of the other machine allows.

        Raises:
            UnknownNetwork: the node is no machine of the pair.
            WrongState: the other machine cannot take them.
        """
        with self._store.write() as write:
            members = {member.agent: member for member in read_members(write.connection)}
            mine = members.pop(node, None)
            if mine is None:
                raise UnknownNetwork(
                    f"{node[:80]!r} is no machine of a pair of gateways",
                    hint="gpupool network gateway-show",
                )
            if mine.is_drained != wanted:
                (peer,) = members.values()
                if wanted and mine.state == "active":
                    refuse_without_standby(peer, self._is_silent)
                ours = network_gateways.c.agent == node
                write.execute(network_gateways.update().where(ours).values(is_drained=wanted))
                kind = "network.gateway_drained" if wanted else "network.gateway_undrained"
                write.event(kind, node)
                renew_machines(write)
            out = self._describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _describe(self, connection: sa.Connection) -> GatewayPairOut:
        found = describe_pair(connection, self._is_silent)
        if found is None:
            row = read_engine_row(connection)
            where = "networking is not enabled" if row is None else f"all are on {row.agent}"
            raise UnknownNetwork(
                f"gateways are on no pair of machines; {where}",
                hint="an admin makes one: gpupool network gateway-pair NODE NODE --address ADDRESS",
            )
        return found

    def _check_nodes(self, connection: sa.Connection, nodes: list[str]) -> None:
        if nodes[0] == nodes[1]:
            raise WrongState(f"{nodes[0]} is named twice; a pair has two machines")
        known = {machine.agent for machine in read_machines(connection)}
        for node in nodes:
            machine = find_machine(connection, node)
            if machine is None:
                raise NetworkingUnavailable(
                    f"{node[:80]!r} is no machine of the networks; they are "
                    f"{', '.join(sorted(known)[:5])}",
                    hint="gpupool network status",
                )
            if self._is_silent(node):
                raise NetworkingUnavailable(
                    f"the agent of {node} does not answer", hint="gpupool gpus"
                )
            if machine.state != "ready":
                raise NetworkingUnavailable(
                    f"{node} is not ready: {machine.reason or machine.state}",
                    hint="gpupool network status",
                )


def refuse_without_standby(peer: Any, is_silent: Callable[[str], bool]) -> None:
    """Raise WrongState where a machine could not take the gateways of the other one now."""
    if peer.state == "standby" and not peer.is_drained and not is_silent(peer.agent):
        return
    state = "drained" if peer.is_drained else peer.state
    if is_silent(peer.agent):
        state = "silent"
    reason = f": {peer.reason}" if peer.reason and not peer.is_drained else ""
    raise WrongState(
        f"{peer.agent} cannot take the gateways; it is {state}{reason}",
        hint="gpupool network gateway-show",
    )


def _insert_pair(write: WriteTransaction, nodes: list[str], settings: dict[str, Any]) -> None:
    write.insert(
        network_gateway_pair,
        id=1,
        active="",
        moved_from="",
        moved_ns=None,
        move_reason="",
        **settings,
    )
    for position, node in enumerate(nodes):
        write.insert(
            network_gateways,
            agent=node,
            position=position,
            is_drained=False,
            state="starting",
            reason="",
            since_ns=None,
        )


def _announce(write: WriteTransaction) -> None:
    renew_machines(write)
    ids = write.execute(sa.select(networks.c.id).where(networks.c.has_gateway)).scalars()
    write.announce("network-engine", PAIR_TOPIC, *(("network", one) for one in ids))


def _refuse_floating(
    connection: sa.Connection, address: IPv4Address, upstream: IPv4Address | None
) -> None:
    """Raise BadAddress where an address of the pair is the floating IP of a job."""
    wanted = [str(one) for one in (address, upstream) if one is not None]
    query = sa.select(floating_ips.c.address).where(floating_ips.c.address.in_(wanted))
    taken = connection.execute(query).scalars().first()
    if taken is not None:
        raise BadAddress(
            f"{taken} is the floating IP of a job",
            hint="take an address that tenants do not have: gpupool network floating-ip-list NETWORK",
        )


def _parse_address(text: str, what: str) -> IPv4Address:
    try:
        address = IPv4Address(text)
    except AddressValueError as error:
        raise BadAddress(
            f"the {what} of gateways is {text[:40]!r}, which is no IPv4 address",
            hint="write it like 203.0.113.10",
        ) from error
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        raise BadAddress(f"no machine outside has {address}, the {what} of gateways")
    return address
