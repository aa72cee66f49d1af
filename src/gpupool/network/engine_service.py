"""The engine that carries networks: the wish is the server's, the fact is the agent's.

One agent runs the databases and the switch. It learns of the wish with its work and reports how
far it is; `reconciler` connects where the agent says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable, StillInUse
from gpupool.base.health import CheckFinding, fail, warn, well
from gpupool.network.forwarding.open_ports import parse_ports, refuse_closed_ports
from gpupool.network.forwarding.reading import read_forward_work
from gpupool.network.lines.opening import change_opening, parse_vlans
from gpupool.network.lines.reading import read_line_work
from gpupool.network.lines.reports import apply_line_reports, end_lines
from gpupool.network.reading import read_uplink
from gpupool.network.tables import network_engine, network_ports, networks
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.networks import (
    NetworkEngineIn,
    NetworkEngineOut,
    NetworkEngineReport,
    NetworkEngineWork,
)


class NetworkEngineService:
    """The wish for the engine, and what its agent reports. Thread-safe."""

    def __init__(
        self,
        store: Store,
        owner_uid: int | None,
        find_agents: Callable[[sa.Connection], Sequence[str]],
    ) -> None:
        """Make the service.

        Args:
            owner_uid: Unix user that the pool runs as; None where it is not known.
            find_agents: returns the agents of the pool's own nodes.
        """
        self._store = store
        self._owner_uid = owner_uid
        self._find_agents = find_agents

    def get_state(self) -> NetworkEngineOut:
        """Return how the engine is."""
        with self._store.read() as connection:
            return _describe(connection)

    def enable(self, body: NetworkEngineIn | None = None) -> NetworkEngineOut:
        """Ask the pool's agent to run the engine. Idempotent; returns at once.

        Raises:
            NetworkingUnavailable: the pool does not run as root, or has several machines.
            BadAddress: the ports or VLANs for tenants are no range of them.
            StillInUse: what would be taken from tenants is used.
        """
        ports = None if body is None else body.forward_ports
        if ports:
            parse_ports(ports)
        if body is not None and body.line_vlans:
            parse_vlans(body.line_vlans)
        if self._owner_uid != 0:
            raise NetworkingUnavailable(
                f"networks need a pool of root; this one runs as uid {self._owner_uid}",
                hint="an admin starts one: sudo gpupool up",
            )
        with self._store.write() as write:
            row = _read_row(write.connection)
            agent = self._find_agent(write.connection)
            if row is None or row.state in ("failed", "stopping"):
                before = write.execute(sa.select(network_engine)).one_or_none()
                write.execute(network_engine.delete())
                write.insert(
                    network_engine,
                    id=1,
                    agent=agent,
                    state="starting",
                    reason="",
                    northbound="",
                    work_seq=write.touch_ledger(),
                    forward_ports="" if before is None else before.forward_ports,
                    line_interface="" if before is None else before.line_interface,
                    line_vlans="" if before is None else before.line_vlans,
                )
                write.event("network.enabled", agent)
                write.announce(("node", agent), "network-engine")
            if ports is not None:
                refuse_closed_ports(write.connection, ports)
                write.execute(network_engine.update().values(forward_ports=ports))
            if body is not None:
                row = _read_row(write.connection)
                if change_opening(write, row, body.line_interface, body.line_vlans):
                    renew_uplink(write)
            out = _describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _find_agent(self, connection: sa.Connection) -> str:
        agents = self._find_agents(connection)
        if len(agents) != 1:
            raise NetworkingUnavailable(
                f"networks are carried on one machine; this pool has {len(agents)}: "
                f"{', '.join(agents[:5]) or 'none yet'}"
            )
        return agents[0]

    def disable(self) -> NetworkEngineOut:
        """Ask the agent to end the engine and to remove all of it. Idempotent; returns at once.

        Networks stay in the pool and are carried again once it is enabled.

        Raises:
            StillInUse: jobs are in networks.
        """
        with self._store.write() as write:
            row = _read_row(write.connection)
            count = _count(write.connection, network_ports)
            if count:
                raise StillInUse(
                    f"{count} jobs are in networks",
                    hint="wait for them or stop them: gpupool ps",
                    jobs=count,
                )
            if row is not None and row.state != "stopping":
                write.execute(
                    network_engine.update().values(
                        state="stopping", reason="", work_seq=write.touch_ledger()
                    )
                )
                write.event("network.disabled", row.agent)
                write.announce(("node", row.agent), "network-engine")
            out = _describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def read_work(
        self, connection: sa.Connection, agent: str, after: int
    ) -> tuple[int, NetworkEngineWork | None]:
        """Read what an agent has to do about the engine behind its cursor, and the new cursor."""
        row = _read_row(connection)
        if row is None or row.agent != agent or row.work_seq <= after:
            return after, None
        want: Literal["run", "stop"] = "stop" if row.state == "stopping" else "run"
        return row.work_seq, NetworkEngineWork(
            want=want,
            uplink=_has_gateways(connection),
            forwards=read_forward_work(connection, read_uplink(connection)),
            line_interface=row.line_interface,
            lines=read_line_work(connection),
        )

    def apply_report(self, agent: str, report: NetworkEngineReport) -> None:
        """Apply what an agent says of the engine. Idempotent."""
        with self._store.write() as write:
            row = _read_row(write.connection)
            if row is None or row.agent != agent:
                return
            if row.state == "stopping":
                if report.state == "stopped":
                    # The row stays for what an admin has opened.
                    write.execute(network_engine.update().values(state="off", uplink=""))
                    end_lines(write)
                    write.event("network.stopped", agent)
                    write.announce("network-engine")
                return
            if report.state == "stopped":
                return
            apply_line_reports(write, report.lines)
            values = {
                "state": report.state,
                "reason": report.reason,
                "northbound": report.northbound,
                "uplink": report.uplink,
            }
            if all(getattr(row, name) == value for name, value in values.items()):
                return
            write.execute(network_engine.update().values(**values))
            if row.uplink != report.uplink:
                _announce_gateways(write)
                # The agent learns of the forwards once the addresses of gateways are known.
                renew_uplink(write)
            write.event(f"network.{report.state}", agent, data={"reason": report.reason})
            write.announce("network-engine")

    def check(self) -> CheckFinding:
        """Check that networks are carried; a pool that did not enable them is well."""
        engine = self.get_state()
        if engine.state == "off":
            return well("not enabled")
        if engine.state == "failed":
            # The reason of a failed start has the packages that this machine lacks.
            return fail(f"the engine failed: {engine.reason}", "gpupool network status")
        if engine.state == "ready" and engine.reason:
            return warn(engine.reason, "gpupool network status")
        if engine.state == "ready":
            return well(f"ready; {engine.networks} networks, {engine.jobs} jobs in them")
        return warn(f"the engine is {engine.state}", "gpupool network status")

    def read_northbound(self) -> str | None:
        """Return where the northbound database is; None while the engine is not ready."""
        with self._store.read() as connection:
            row = _read_row(connection)
        return row.northbound if row is not None and row.state == "ready" else None


def renew_uplink(write: WriteTransaction) -> None:
    """Tell the engine's agent anew whether some network has a gateway, in the caller's transaction."""
    row = _read_row(write.connection)
    if row is not None:
        write.execute(network_engine.update().values(work_seq=write.touch_ledger()))
        write.announce(("node", row.agent))


def read_open_ports(connection: sa.Connection) -> range:
    """Read the ports of the pool's machine that are for tenants."""
    row = _read_row(connection)
    return parse_ports(row.forward_ports) if row is not None and row.forward_ports else range(0)


def _has_gateways(connection: sa.Connection) -> bool:
    query = sa.select(networks.c.id).where(networks.c.has_gateway).limit(1)
    return connection.execute(query).first() is not None


def _announce_gateways(write: WriteTransaction) -> None:
    """Announce the networks whose rows depend on the uplink."""
    found = write.execute(sa.select(networks.c.id).where(networks.c.has_gateway)).scalars()
    write.announce(*(("network", network_id) for network_id in found))


def require_ready(connection: sa.Connection) -> None:
    """Raise NetworkingUnavailable unless networks can take jobs now."""
    row = _read_row(connection)
    if row is None:
        raise NetworkingUnavailable(
            "networking is not enabled in this pool",
            hint="an admin enables it: gpupool network enable",
        )
    if row.state != "ready":
        reason = f": {row.reason}" if row.reason else ""
        raise NetworkingUnavailable(
            f"the engine of networks is {row.state}{reason}", hint="gpupool network status"
        )


def _read_row(connection: sa.Connection) -> Any:
    """Return the row of an engine that is enabled, or on its way to be or not to be; else None."""
    query = sa.select(network_engine).where(network_engine.c.state != "off")
    return connection.execute(query).one_or_none()


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def _describe(connection: sa.Connection) -> NetworkEngineOut:
    row = _read_row(connection)
    return NetworkEngineOut(
        state="off" if row is None else row.state,
        reason="" if row is None else row.reason,
        node=None if row is None else row.agent,
        networks=_count(connection, networks),
        jobs=_count(connection, network_ports),
        forward_ports="" if row is None else row.forward_ports,
        line_interface="" if row is None else row.line_interface,
        line_vlans="" if row is None else row.line_vlans,
    )
