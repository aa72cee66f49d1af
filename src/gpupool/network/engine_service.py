"""The engine that carries networks: the wish is the server's, the fact is the agent's.

The agent of the centre runs the databases; every agent runs a switch. Agents learn of the wish with
their work and report how far they are; `reconciler` connects where the centre says. The rows of the
machines are in `machines`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable, StillInUse
from gpupool.base.health import CheckFinding, fail, warn, well
from gpupool.network.balancing.proxy_reading import read_proxy_work
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.engine_row import apply_centre_report, read_engine_row, renew_work
from gpupool.network.firewall.reading import read_firewall_work
from gpupool.network.forwarding.open_ports import parse_ports, refuse_closed_ports
from gpupool.network.forwarding.reading import read_forward_work
from gpupool.network.limiting.reading import read_limit_work
from gpupool.network.limiting.readings import merge_readings
from gpupool.network.lines.opening import change_opening, parse_vlans
from gpupool.network.lines.reading import read_line_work
from gpupool.network.lines.reports import apply_line_reports, end_lines
from gpupool.network.machines import service as machines
from gpupool.network.machines.views import count_rows, describe_engine, describe_waiting
from gpupool.network.ovn.credentials import show_certificate
from gpupool.network.reading import read_uplink
from gpupool.network.tables import network_engine, network_ports
from gpupool.network.verification.work import apply_verification, read_verification_work
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.networks import (
    NetworkEngineIn,
    NetworkEngineOut,
    NetworkEngineReport,
    NetworkEngineWork,
)

log = logging.getLogger(__name__)


class NetworkEngineService:
    """The wish for the engine, and what its agent reports. Thread-safe."""

    def __init__(
        self,
        store: Store,
        owner_uid: int | None,
        find_agents: Callable[[sa.Connection], Sequence[str]],
        is_silent: Callable[[str], bool] = lambda _agent: False,
    ) -> None:
        """Make the service.

        Args:
            owner_uid: Unix user that the pool runs as; None where it is not known.
            find_agents: returns the agents of the pool's own nodes, the first registered first.
            is_silent: whether an agent has missed its heartbeats.
        """
        self._store = store
        self._owner_uid = owner_uid
        self._find_agents = find_agents
        self.proxies = ProxyStates()
        self._is_silent = is_silent
        self._relay_socket = ""

    def get_state(self) -> NetworkEngineOut:
        """Return how the engine is."""
        with self._store.read() as connection:
            out = self._describe(connection)
        if out.state == "stopping":
            with self._store.write() as write:
                # A machine that is silent by now is no longer waited for.
                self._settle_end(write)
                out = self._describe(write.connection)
        return out.model_copy(update={"relay_socket": self._relay_socket})

    def enable(self, body: NetworkEngineIn | None = None) -> NetworkEngineOut:
        """Ask the pool's agents to run the engine. Idempotent; returns at once.

        Another centre than before gets empty databases, which are written from the pool's.

        Raises:
            NetworkingUnavailable: the pool does not run as root, or has no such machine.
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
            row = read_engine_row(write.connection)
            agent = self._choose_centre(write.connection, row, None if body is None else body.node)
            is_other = row is not None and row.agent != agent
            if row is None or row.state in ("failed", "stopping") or is_other:
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
                machines.begin_start(write)
                self._bring_in(write, self._find_agents(write.connection))
                machines.announce_machines(write)
                write.announce("network-engine")
            if ports is not None:
                refuse_closed_ports(write.connection, ports)
                write.execute(network_engine.update().values(forward_ports=ports))
            if body is not None:
                row = read_engine_row(write.connection)
                if change_opening(write, row, body.line_interface, body.line_vlans):
                    renew_work(write)
            out = self._describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _choose_centre(self, connection: sa.Connection, row: Any, wanted: str | None) -> str:
        agents = self._find_agents(connection)
        if wanted is not None and wanted not in agents:
            raise NetworkingUnavailable(
                f"this pool has no machine {wanted}; it has {', '.join(agents[:5]) or 'none yet'}",
                hint="gpupool nodes",
            )
        if not agents:
            raise NetworkingUnavailable("this pool has no machine yet", hint="gpupool nodes")
        if wanted is not None:
            return wanted
        return str(row.agent) if row is not None and row.agent in agents else agents[0]

    def admit_agent(self, agent: str) -> None:
        """Make a machine part of an engine that is enabled, and renew what is due. Idempotent."""
        with self._store.read() as connection:
            row = read_engine_row(connection)
            is_wanted = row is not None and row.state != "stopping"
            if not is_wanted or agent not in self._find_agents(connection):
                return
            known = machines.find_machine(connection, agent)
            if known is not None and not machines.is_renewal_due(known, self._store.clock.now_ns()):
                return
        try:
            with self._store.write() as write:
                if self._bring_in(write, [agent]):
                    machines.announce_machines(write)
        except NetworkingUnavailable as error:
            # Its other work goes on.
            log.warning("%s joins no networks: %s", agent, error)

    def _bring_in(self, write: WriteTransaction, agents: Sequence[str]) -> bool:
        """Admit machines with the certificates of all of them; whether something changed."""
        has_new = machines.admit_machines(write, agents)
        return machines.renew_certificates(write, self._store.pool_id) or has_new

    def disable(self) -> NetworkEngineOut:
        """Ask the agents to end the engine and to remove all of it. Idempotent; returns at once.

        Networks stay in the pool and are carried again once it is enabled.

        Raises:
            StillInUse: jobs are in networks.
        """
        with self._store.write() as write:
            row = read_engine_row(write.connection)
            count = count_rows(write.connection, network_ports)
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
                machines.stop_members(write, row.agent)
                write.announce("network-engine")
            self._settle_end(write)
            out = self._describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def read_work(
        self, connection: sa.Connection, agent: str, after: int
    ) -> tuple[int, NetworkEngineWork | None]:
        """Read what an agent has to do about the engine behind its cursor, and the new cursor."""
        machine = machines.find_machine(connection, agent)
        if machine is None or machine.work_seq <= after:
            return after, None
        row = read_engine_row(connection)
        if row is None or machine.state == "stopping":
            return machine.work_seq, NetworkEngineWork(want="stop")
        if row.state == "stopping":
            # The centre, whose members end first.
            return after, None
        shared: dict[str, Any] = {
            "want": "run",
            "chassis": machines.name_chassis(agent, row.agent),
            "certificate": machines.read_certificate(machine),
            "mtu": machines.read_largest_mtu(connection),
            "limits": read_limit_work(connection, gateways=agent == row.agent),
        }
        if agent != row.agent:
            centre = machines.find_machine(connection, row.agent)
            if centre is None or not centre.southbound:
                # The centre's report gives it this work again.
                return after, None
            work = NetworkEngineWork(role="member", southbound=centre.southbound, **shared)
            return machine.work_seq, work
        uplink = read_uplink(connection)
        others = [one.agent for one in machines.read_machines(connection) if one.agent != agent]
        return machine.work_seq, NetworkEngineWork(
            members=[machines.name_chassis(other, agent) for other in others],
            uplink=machines.has_gateways(connection),
            forwards=read_forward_work(connection, uplink),
            firewall=read_firewall_work(connection, uplink),
            proxies=read_proxy_work(connection),
            line_interface=row.line_interface,
            lines=read_line_work(connection),
            verification=read_verification_work(connection),
            **shared,
        )

    def apply_report(self, agent: str, report: NetworkEngineReport) -> None:
        """Apply what an agent says of the engine. Idempotent."""
        with self._store.write() as write:
            row = read_engine_row(write.connection)
            if row is None or row.state == "stopping":
                if report.state == "stopped":
                    machines.forget_machine(write, agent)
                    self._settle_end(write)
                return
            if report.state == "stopped":
                return
            if report.limits is not None:
                merge_readings(write, report.limits)
            if report.verification is not None:
                apply_verification(write, report.verification)
            before = machines.find_machine(write.connection, agent)
            if machines.note_report(write, agent, report):
                data = {"reason": report.reason}
                write.event(f"network.{report.state}", agent, data=data)
                write.announce("network-engine")
            if row.agent != agent:
                return
            self.proxies.replace(report.proxies, report.missing_proxy)
            self._relay_socket = report.relay_socket
            apply_line_reports(write, report.lines)
            if before is not None and before.southbound != report.southbound:
                others = [one.agent for one in machines.read_machines(write.connection)]
                machines.announce_machines(write, [other for other in others if other != agent])
            apply_centre_report(write, row, report)

    def _settle_end(self, write: WriteTransaction) -> None:
        """Let the centre end after its members, and switch the engine off after it.

        So members remove their rows from databases that still answer. A silent machine is not
        waited for.
        """
        row = read_engine_row(write.connection)
        if row is None or row.state != "stopping":
            return
        if machines.has_more_to_end(write, row.agent, self._is_silent):
            return
        # The row stays for what an admin has opened.
        write.execute(network_engine.update().values(state="off", uplink=""))
        end_lines(write)
        write.event("network.stopped", row.agent)
        write.announce("network-engine")

    def check(self) -> CheckFinding:
        """Check that networks are carried; a pool that did not enable them is well."""
        engine = self.get_state()
        if engine.state == "off":
            return well("not enabled")
        if engine.state == "failed":
            # The reason of a failed start has the packages that this machine lacks.
            return fail(f"the engine failed: {engine.reason}", "gpupool network status")
        waiting = [one for one in engine.machines if one.state != "ready"]
        if engine.state == "ready" and waiting:
            return warn(describe_waiting(engine.machines, waiting), "gpupool network status")
        if engine.state == "ready" and engine.reason:
            return warn(engine.reason, "gpupool network status")
        if engine.state == "ready":
            return well(f"ready; {engine.networks} networks, {engine.jobs} jobs in them")
        return warn(f"the engine is {engine.state}", "gpupool network status")

    def read_northbound(self) -> str | None:
        """Return where the northbound database is; None while the engine is not ready.

        A centre elsewhere is reached over TLS, with a certificate that is shown from then on.
        """
        with self._store.read() as connection:
            row = read_engine_row(connection)
            if row is None or row.state != "ready":
                return None
            centre = machines.find_machine(connection, row.agent)
        is_here = Path(row.northbound.removeprefix("unix:")).exists()
        if is_here or centre is None or not centre.northbound:
            return str(row.northbound)
        # As the centre itself: the databases trust every certificate of the pool's authorities.
        show_certificate(centre.certificate, centre.private_key, centre.trusted)
        return str(centre.northbound)

    def _describe(self, connection: sa.Connection) -> NetworkEngineOut:
        return describe_engine(connection, read_engine_row(connection), self._is_silent)
