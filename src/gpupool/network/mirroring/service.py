"""Mirrors as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import (
    BadInput,
    NameTaken,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import Principal
from gpupool.network.engine_row import renew_machines
from gpupool.network.lookup import FindNetwork
from gpupool.network.mirroring.mirror_states import MirrorStates
from gpupool.network.mirroring.reading import describe_mirrors
from gpupool.network.mirroring.tables import network_mirrors
from gpupool.network.mirroring.tunnel_keys import TUNNEL_KEYS, find_tunnel_key
from gpupool.network.tables import network_ports
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.mirrors import MirrorIn, MirrorOut

#: Mirrors of one network, at most: each copies all packets of a job in the switch.
MOST_MIRRORS = 8
#: Mirrors of all networks, at most: half of the numbers, so that a free one is found soon.
_MOST_IN_POOL: Final = len(TUNNEL_KEYS) // 2
#: Characters of an interface's name (linux/if.h, IFNAMSIZ).
_MOST_CHARACTERS: Final = 15
#: Interfaces that a job has anyway.
_RESERVED: Final = ("lo", "eth0", "all", "default")


class MirrorService:
    """Mirrors of networks."""

    def __init__(self, store: Store, find_network: FindNetwork, states: MirrorStates) -> None:
        self._store = store
        self._find_network = find_network
        self._states = states

    def list_mirrors(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[MirrorOut]:
        """List the mirrors of a network. Raises UnknownNetwork."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            return describe_mirrors(connection, network, self._states)

    def create_mirror(
        self, caller: Principal, name: str, body: MirrorIn, tenant: str | None = None
    ) -> MirrorOut:
        """Copy the packets of a running job to another, until one of them ends.

        Raises:
            UnknownNetwork: there is no such network, or no such job in it now.
            BadInput: the name is no name of an interface.
            WrongState: both jobs are the same.
            NameTaken: the network has a mirror of that name.
            TooManyNetworks: the network, or the pool, has as many as it may.
        """
        _check_interface(body.name)
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            present = describe_mirrors(write.connection, network, self._states)
            _check_new(network, body.name, present)
            source = _find_port(write.connection, network, body.source)
            target = _find_port(write.connection, network, body.target)
            if source.id == target.id:
                raise WrongState(
                    f"{source.name} cannot be the source and the target of one mirror",
                    hint=f"gpupool network show {network.name}",
                )
            write.insert(
                network_mirrors,
                public_id=_choose_id(write.connection),
                network_id=network.id,
                name=body.name,
                source_id=source.id,
                target_id=target.id,
                direction=body.direction,
                created_ns=write.now_ns,
            )
            _finish(write, "created", network, body.name)
            shown = describe_mirrors(write.connection, network, self._states)
            out = next(one for one in shown if one.name == body.name)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_mirror(
        self, caller: Principal, name: str, mirror: str, tenant: str | None = None
    ) -> None:
        """Delete a mirror by its name or id. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            named = sa.or_(network_mirrors.c.name == mirror, network_mirrors.c.public_id == mirror)
            ours = sa.and_(network_mirrors.c.network_id == network.id, named)
            if not write.execute(network_mirrors.delete().where(ours)).rowcount:
                raise UnknownNetwork(
                    f"network {network.name} has no mirror {mirror[:80]!r}",
                    hint=f"gpupool network mirror-list {network.name}",
                )
            _finish(write, "deleted", network, mirror)
            write.answer(204, None)


def _choose_id(connection: sa.Connection) -> str:
    """Choose an id whose number in tunnels no other mirror has: else tenants would get its copies."""
    present = connection.execute(sa.select(network_mirrors.c.public_id)).scalars()
    taken = {find_tunnel_key(one) for one in present}
    if len(taken) >= _MOST_IN_POOL:
        raise TooManyNetworks(
            f"the pool has {len(taken)} mirrors; {_MOST_IN_POOL} is the most", limit=_MOST_IN_POOL
        )
    while True:
        chosen = new_id("m")
        if find_tunnel_key(chosen) not in taken:
            return chosen


def _check_interface(name: str) -> None:
    check_name(name, "name of a mirror")
    if len(name) > _MOST_CHARACTERS or name in _RESERVED:
        raise BadInput(
            f"mirror {name!r} cannot be the name of an interface: up to {_MOST_CHARACTERS} "
            f"characters, and none of {', '.join(_RESERVED)}"
        )


def _check_new(network: Any, name: str, present: list[MirrorOut]) -> None:
    hint = f"gpupool network mirror-list {network.name}"
    if name in [one.name for one in present]:
        raise NameTaken(f"network {network.name} already has a mirror {name!r}", hint=hint)
    if len(present) >= MOST_MIRRORS:
        raise TooManyNetworks(
            f"network {network.name} has {len(present)} mirrors; {MOST_MIRRORS} is the most",
            hint=hint,
            limit=MOST_MIRRORS,
        )


def _find_port(connection: sa.Connection, network: Any, name: str) -> Any:
    query = sa.select(network_ports).where(
        network_ports.c.network_id == network.id, network_ports.c.name == name
    )
    row = connection.execute(query.order_by(network_ports.c.id.desc())).first()
    if row is None:
        raise UnknownNetwork(
            f"no job of network {network.name} has the name {name[:80]!r} now",
            hint=f"gpupool network show {network.name}  lists them",
        )
    return row


def _finish(write: WriteTransaction, what: str, network: Any, mirror: str) -> None:
    data = {"network": network.public_id, "mirror": mirror}
    write.event(f"network.mirror_{what}", network.name, tenant_id=network.tenant_id, data=data)
    renew_machines(write)
