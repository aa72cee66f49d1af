"""The machines of the engine: admitted, and given certificates and work.

Runs in the transactions of `engine_service`. The engine's own row says which agent is the centre.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import BadQuantity, NetworkingUnavailable
from gpupool.network.gateway_rows import CHASSIS
from gpupool.network.machines.certificates import (
    Authority,
    choose_issuer,
    is_successor_due,
    issue_certificate,
    join_trusted,
    make_authority,
)
from gpupool.network.machines.tables import network_authorities, network_machines
from gpupool.network.tables import networks
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.secrets.vault import SecretVault
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.networks import EngineCertificate

#: What a report says of its machine, as columns of the same names.
_REPORTED: Final = (
    "state",
    "reason",
    "tunnel",
    "mtu",
    "datapath",
    "version",
    "northbound",
    "southbound",
)


def admit_machines(write: WriteTransaction, agents: Iterable[str]) -> bool:
    """Make agents part of the engine; whether some were not before."""
    known = {row.agent for row in read_machines(write.connection)}
    new = [agent for agent in agents if agent not in known]
    for agent in new:
        empty = dict.fromkeys((*_REPORTED, "certificate", "private_key", "trusted"), "")
        values = empty | {"state": "starting", "mtu": 0, "renew_ns": 0, "work_seq": 0}
        write.insert(network_machines, agent=agent, **values)
    return bool(new)


def read_machines(connection: sa.Connection) -> Sequence[Any]:
    """Read the rows of the machines, in the order of their admission."""
    query = sa.select(network_machines).order_by(network_machines.c.id)
    return connection.execute(query).all()


def find_machine(connection: sa.Connection, agent: str) -> Any:
    """Return the row of an agent's machine, or None."""
    query = sa.select(network_machines).where(network_machines.c.agent == agent)
    return connection.execute(query).one_or_none()


def require_machine(agent: str, agents: Sequence[str]) -> None:
    """Raise NetworkingUnavailable where an agent is none of the pool's."""
    if agent not in agents:
        raise NetworkingUnavailable(
            f"this pool has no machine {agent}; it has {', '.join(agents[:5]) or 'none yet'}",
            hint="gpupool gpus",
        )


def is_renewal_due(row: Any, now_ns: int, secrets: SecretVault) -> bool:
    """Whether a machine that has a certificate needs the next one."""
    is_due = row.renew_ns <= now_ns or secrets.is_given_up(row.private_key)
    return bool(row.certificate) and is_due


def renew_certificates(write: WriteTransaction, store: Store) -> bool:
    """Issue what machines lack or what is due, and make a successor of an old authority.

    A pool of one machine needs none. Idempotent; returns whether something changed.

    Raises:
        NetworkingUnavailable: the library that makes certificates is missing.
        SecretKeyMissing: a private key cannot be encrypted or decrypted; others of `SECRET_ERRORS`
            too.
    """
    machines = read_machines(write.connection)
    if len(machines) < 2:
        return False
    secrets = store.secrets
    authorities = _read_authorities(write.connection, secrets)
    # Machines trust an authority whose key was given up, and it issues nothing more.
    usable = [one for one in authorities if one.private_key]
    if is_successor_due(usable, write.now_ns):
        made = make_authority(store.pool_id, write.now_ns)
        column = network_authorities.c.private_key
        private_key = secrets.encrypt(write, column, made.created_ns, made.private_key)
        write.insert(network_authorities, **{**vars(made), "private_key": private_key})
        authorities.append(made)
        usable.append(made)
    issuer = choose_issuer(usable, write.now_ns)
    trusted = join_trusted(authorities, write.now_ns)
    has_changed = False
    for row in machines:
        values = {} if row.trusted == trusted else {"trusted": trusted}
        if row.renew_ns <= write.now_ns or secrets.is_given_up(row.private_key):
            values |= vars(issue_certificate(issuer, row.agent, write.now_ns))
            column = network_machines.c.private_key
            text = str(values["private_key"])
            values["private_key"] = secrets.encrypt(write, column, row.agent, text)
        if values:
            _update(write, row.agent, values)
            has_changed = True
    return has_changed


def announce_machines(write: WriteTransaction, agents: Iterable[str] | None = None) -> None:
    """Give machines their work again; by default all of them."""
    chosen = [row.agent for row in read_machines(write.connection)] if agents is None else agents
    for agent in chosen:
        _update(write, agent, {"work_seq": write.touch_ledger()})
        write.announce(("node", agent))


def begin_start(write: WriteTransaction) -> None:
    """Let all machines start: members wait until their centre has reported where databases are."""
    values = {"northbound": "", "southbound": "", "state": "starting", "reason": ""}
    write.execute(network_machines.update().values(**values))
    write.announce("fleet")


def stop_members(write: WriteTransaction, centre: str) -> None:
    """Ask all machines but the centre to end their part."""
    for row in read_machines(write.connection):
        if row.agent != centre:
            stop_machine(write, row)


def stop_machine(write: WriteTransaction, row: Any) -> None:
    """Ask a machine to end its part of the engine. Idempotent."""
    if row.state != "stopping":
        _update(write, row.agent, {"state": "stopping", "reason": ""})
        announce_machines(write, [row.agent])
        write.announce("fleet")


def has_more_to_end(write: WriteTransaction, centre: str, is_silent: Callable[[str], bool]) -> bool:
    """Whether some machine that answers has not ended yet; the last one, the centre, is asked.

    So are those that do not answer then: they end what they carry when they are back.
    """
    left = {one.agent: one for one in read_machines(write.connection)}
    awaited = [agent for agent in left if not is_silent(agent)]
    if awaited == [centre]:
        stop_machine(write, left[centre])
    if not awaited:
        for row in left.values():
            stop_machine(write, row)
    return bool(awaited)


def note_report(write: WriteTransaction, agent: str, report: NetworkEngineReport) -> bool:
    """Write what an agent says of its machine; whether that is news.

    A tunnel address that is another machine's makes the later machine fail.
    """
    row = find_machine(write.connection, agent)
    if row is None:
        return False
    values = {name: getattr(report, name) for name in _REPORTED}
    # The centre's own socket is in the engine's row.
    values["northbound"] = report.northbound_tls
    taken = sa.select(network_machines.c.agent).where(
        network_machines.c.tunnel == report.tunnel,
        network_machines.c.agent != agent,
        network_machines.c.tunnel != "",
    )
    other = write.execute(taken.limit(1)).scalar()
    if other is not None:
        reason = f"{report.tunnel} is the tunnel address of {other} too; give each machine its own"
        values |= {"state": "failed", "reason": f"{reason}: GPUPOOL_TUNNEL_ADDRESS", "tunnel": ""}
    if all(getattr(row, name) == value for name, value in values.items()):
        return False
    _update(write, agent, values)
    if row.tunnel != values["tunnel"]:
        # The machines of a pair of gateways know each other by it.
        announce_machines(write, [one.agent for one in read_machines(write.connection)])
    if row.state != values["state"]:
        # The scheduler places jobs with a network where the engine is ready.
        write.announce("fleet")
    return True


def forget_machine(write: WriteTransaction, agent: str) -> None:
    """End the record of a machine; its certificate is forgotten with it. Idempotent."""
    write.execute(network_machines.delete().where(network_machines.c.agent == agent))
    write.announce("fleet")


def read_certificate(row: Any, secrets: SecretVault) -> EngineCertificate | None:
    """Return the certificate of a machine; None where it needs none. Raises `SECRET_ERRORS`."""
    if not row.certificate:
        return None
    private_key = secrets.decrypt(network_machines.c.private_key, row.agent, row.private_key)
    return EngineCertificate(
        certificate=row.certificate, private_key=private_key, trusted=row.trusted
    )


def name_chassis(agent: str, centre: str) -> str:
    """Return how OVN knows a machine: gateways are bound to the name of the centre."""
    return CHASSIS if agent == centre else f"{CHASSIS}-{agent}"


def has_gateways(connection: sa.Connection) -> bool:
    """Whether some network has a gateway, which the centre needs an uplink for."""
    query = sa.select(networks.c.id).where(networks.c.has_gateway).limit(1)
    return connection.execute(query).first() is not None


def read_largest_mtu(connection: sa.Connection) -> int:
    """Return the largest packet of a network; 0 without networks."""
    return connection.execute(sa.select(sa.func.max(networks.c.mtu))).scalar() or 0


def check_mtu(connection: sa.Connection, mtu: int) -> None:
    """Raise BadQuantity for packets of a network that some machine cannot carry to the others."""
    known = sa.select(network_machines.c.agent, network_machines.c.mtu)
    known = known.where(network_machines.c.mtu > 0).order_by(network_machines.c.mtu).limit(1)
    least = connection.execute(known).one_or_none()
    if least is not None and mtu > least.mtu:
        raise BadQuantity(
            f"packets of {mtu} bytes do not fit: tunnels of {least.agent} carry {least.mtu}",
            hint=f"--mtu {least.mtu}, or larger packets between the machines",
        )


def _read_authorities(connection: sa.Connection, secrets: SecretVault) -> list[Authority]:
    query = sa.select(network_authorities).order_by(network_authorities.c.id)
    found = list[Authority]()
    for row in connection.execute(query):
        column = network_authorities.c.private_key
        private_key = ""
        if not secrets.is_given_up(row.private_key):
            private_key = secrets.decrypt(column, row.created_ns, row.private_key)
        found.append(Authority(row.certificate, private_key, row.created_ns, row.expires_ns))
    return found


def _update(write: WriteTransaction, agent: str, values: dict[str, Any]) -> None:
    write.execute(
        network_machines.update().where(network_machines.c.agent == agent).values(**values)
    )
